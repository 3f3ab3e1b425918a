--- redlock dev [N]: starts disposable servers.

local args = require "redlock.cli.args"
local json = require "redlock.text.json"
local nonce = require("redlock.runtime.ffi_values").nonce
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local redlock = require "redlock"
local stay = require "redlock.cli.stay"

local _M = { usage = "dev [N]", summary = "run N throw-away servers (3) until Ctrl-C",
    flags = { { "--server", "PROGRAM",
        "start PROGRAM instead of redis-server: valkey-server, or a path to one" } } }

_M.help = [[
redlock dev [N] [--server PROGRAM]

Starts N Redis servers (3) on free ports of this machine. They save nothing, vote at once, and end
with this command, however it ends.

The command prints an export line. In a shell where you paste it, redlock and programs that call
redlock.from_environment() use these servers. The servers get a new password each time. It is in a
file that only this user can read, and that redlock removes at the end.

FLAGS

STATUSES

  redlock dev 5 --json | head -1]]

local UP_WITHIN = 10          -- seconds for a server to answer
local ATTEMPTS = 5            -- as another program may take the free port first

local SETTINGS, SERVER = "/redlock.conf", "/redis.conf"

-- A folder, and in it two files, for this user only. A server loads files that lie in its folder,
-- and reads its password from one, since all users can see a process's arguments.
local function new_folder()
    local pipe = io.popen(("umask 077; d=$(mktemp -d) && : > \"$d%s\" && : > \"$d%s\" && "
        .. "echo \"$d\"")
        :format(SETTINGS, SERVER))
    local path = pipe:read "*l"
    pipe:close()
    return path or args.fail "no temporary folder: mktemp -d failed"
end

local function write(path, ...)
    local file = assert(io.open(path, "w"))
    assert(file:write(...))
    assert(file:close())
end

local function start(program, port, folder, password)
    local path = folder .. SERVER
    write(path, "port ", port, "\nbind 127.0.0.1\nsave \"\"\nappendonly no\ndir \"", folder,
        "\"\nrequirepass ", password, "\n")
    local pid, why = process.spawn({ program, path }, { group = true, quiet = true })
    return pid or args.fail("no process: " .. why)
end

local function answers(uri)
    local client = redlock.new { nodes = uri, restart_guard = false }
    local ok = client:connect(1)
    client:close()
    return ok
end

-- Waits until a server answers.
-- @return true; or false and its exit status
local function wait_for(server)
    local finish = process.now() + UP_WITHIN
    repeat
        local status = process.reap(server.pid)
        if status then
            return false, status
        elseif answers(server.uri) then
            return true
        end
        local signo = stay.pause(0.02)
        if signo then
            error({ status = 128 + signo }, 0)         -- the servers die with this process
        end
    until process.now() > finish
    return false, 0
end

-- Starts one server and waits until it answers.
local function server(program, folder, password)
    local status
    for _ = 1, ATTEMPTS do
        local port = process.free_port()
        local s = { label = "127.0.0.1:" .. port, pid = start(program, port, folder, password) }
        s.uri = ("redis://:%s@%s"):format(password, s.label)
        local up
        up, status = wait_for(s)
        if up then
            return s
        end
        process.kill(s.pid, process.KILL)
        if status == 127 or status == 126 then
            break
        end
    end
    args.fail(status == 127 and program .. " is not on the PATH; on Debian: apt-get install "
        .. "redis-server" or program .. " does not start; try it by hand: " .. program
        .. " --port 7000")
end

local function stop(servers)
    for _, s in ipairs(servers) do
        process.kill(s.pid, process.TERM)
    end
    for _, s in ipairs(servers) do
        for _ = 1, 200 do
            if process.reap(s.pid) then
                break
            end
            process.signal(0.01)
        end
        process.kill(s.pid, process.KILL)
    end
end

local function show(uris, path, as_json)
    if as_json then
        print(json.encode { nodes = uris, config = path })
    else
        print(#uris .. " servers; Ctrl-C ends them, and all that is in them:")
        print("  " .. table.concat(uris, "\n  "))
        print "In another shell:"
        -- Servers in the variable would win over those in the file.
        print("  export REDLOCK_NODES= REDLOCK_CONFIG='" .. path .. "'")
        print "  redlock run hello -- sleep 10"
    end
    io.stdout:flush()
end

-- Lets new servers vote at once: nobody has held a lock on them.
local function admit(uris)
    local client = redlock.new { nodes = uris, timeout = UP_WITHIN, connect_timeout = UP_WITHIN }
    report.need(client:init { force = true })        -- nobody knows these servers
    client:close()
end

-- Runs n servers until a signal.
-- @return the exit status
local function run(n, folder, given)
    local servers, uris, password = {}, {}, nonce()
    for i = 1, n do
        servers[i] = server(given["--server"] or "redis-server", folder, password)
        uris[i] = servers[i].uri
    end
    admit(uris)
    write(folder .. SETTINGS, "nodes = ", table.concat(uris, " "), "\n")
    show(uris, folder .. SETTINGS, given["--json"])
    local signo
    repeat
        signo = process.signal(60)
        for _, s in ipairs(signo == process.CHLD and servers or {}) do
            if process.reap(s.pid) then
                report.note(s.label, " has ended")
            end
        end
    until stay.ENDING[signo]
    stop(servers)
    return 0
end

function _M.main(given, names)
    local n = tonumber(names[1] or 3)
    if not n or n % 1 ~= 0 or n < 1 or n > 32 or names[2] then
        args.fail "redlock dev takes a number of servers, 1 to 32"
    end
    process.catch()
    local folder = new_folder()
    local ok, status = pcall(run, n, folder, given)
    for _, name in ipairs { SETTINGS, SERVER, "" } do
        os.remove(folder .. name)
    end
    return ok and status or error(status, 0)
end

return _M
