-- Everything that has to be undone: child processes, connections, directories, ports. What a test
-- and its before_each() have made is undone after the test, what setup() has made after the file.
local sys = require "spec.support.sys"

local _M = {}

local procs, conns, dirs = {}, {}, {}

function _M.add_proc(proc)
    procs[#procs + 1] = proc
end

-- The last process that came is there in the place of another one: a server that is started again.
function _M.replace_proc(old)
    for i = 1, #procs - 1 do
        if procs[i] == old then
            procs[i] = table.remove(procs)
            return
        end
    end
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

local function count()
    return { procs = #procs, conns = #conns, dirs = #dirs, ports = sys.ports_taken() }
end

-- Takes all but the first n off a list.
local function take(list, n)
    local taken = {}
    for i = n + 1, #list do
        taken[#taken + 1], list[i] = list[i], nil
    end
    return taken
end

-- Undoes what was made since then.
local function undo(since)
    local ended = take(procs, since.procs)
    for _, proc in ipairs(ended) do
        proc:kill "KILL"
    end
    for _, proc in ipairs(ended) do
        proc:wait()
        proc:close()
    end
    for _, dir in ipairs(take(dirs, since.dirs)) do
        os.execute(("rm -rf '%s'"):format(dir))
    end
    sys.release_ports(since.ports)
end

local NOTHING = { procs = 0, conns = 0, dirs = 0, ports = 0 }

local function finish(since)
    for _, conn in ipairs(take(conns, since.conns)) do
        conn:close()
    end
    undo(since)
end

function _M.cleanup()
    finish(NOTHING)
end

-- Loaded by a file of specs.
local busted = package.loaded.busted
if busted then
    local since
    busted.before_each(function() since = count() end)
    busted.after_each(function() finish(since) end)
    busted.teardown(_M.cleanup)
end

-- At exit.
_M.sentinel = newproxy(true)
getmetatable(_M.sentinel).__gc = function() undo(NOTHING) end

return _M
