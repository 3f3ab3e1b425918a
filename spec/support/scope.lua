-- Everything that has to be undone: child processes, connections, directories, ports.
local sys = require "spec.support.sys"

local _M = {}

local procs, conns, dirs = {}, {}, {}

function _M.add_proc(proc)
    procs[#procs + 1] = proc
end

-- Anything with a method close().
function _M.add_conn(conn)
    conns[#conns + 1] = conn
end

function _M.tmpdir()
    local dir = sys.mkdtemp()
    dirs[#dirs + 1] = dir
    return dir
end

local function undo()
    for _, proc in ipairs(procs) do
        proc:kill "KILL"
    end
    for _, proc in ipairs(procs) do
        proc:wait()
        proc:close()
    end
    for _, dir in ipairs(dirs) do
        os.execute(("rm -rf '%s'"):format(dir))
    end
    procs, dirs = {}, {}
    sys.release_ports()
end

function _M.cleanup()
    for _, conn in ipairs(conns) do
        conn:close()
    end
    conns = {}
    undo()
end

-- At exit.
_M.sentinel = newproxy(true)
getmetatable(_M.sentinel).__gc = undo

return _M
