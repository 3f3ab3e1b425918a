--- redlock lua: runs a Lua script with a client.
--
-- The script runs in a fork, in which the signals that end it do nothing. The parent catches them.
-- It first ends the processes that the script has started, while the script is stopped and keeps
-- its holds; then the script, which releases them. So no work that began under a lock continues
-- without it.

local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local defaults = require("redlock.servers.options").defaults
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local redlock = require "redlock"
local validate = require "redlock.runtime.validate"

local assert, error = assert, error

local _M = { usage = "lua FILE [ARGS]", summary = "run a Lua script that takes locks",
    flags = {}, follows = "..." }

_M.help = [[
redlock lua [OPTIONS] FILE [ARGS]

Runs a Lua file. The script finds these globals:
  client    a connected client of the configured servers. Its max_hold is off unless the
            configuration sets it, because the locks end with the script anyway
  redlock   the library
  args      the arguments after FILE, from 1; args[0] is FILE. The script also gets them as `...`
  run       runs a program without a shell, so that it gets each argument as it is, and waits for
            it: run("ssh", "--", host, "uptime"). Returns true; or nil and the exit status (126: not
            executable, 127: not found, 128+n: ended by signal n). The script's locks are renewed
            meanwhile. When one is lost, the program continues: call lock:check() after it
`client` already has the passwords, so the script and the processes that it starts do not get the
variables with passwords.

When the script ends, redlock releases all locks that it holds through `client`: also after
os.exit, an error or a signal. TERM, INT, HUP, QUIT, USR1 and USR2 end the script at any point.
redlock first pauses the script, which keeps its locks. It sends the signal to the processes that
the script started, and KILL after 5 s (or half a lease, if that is less). Then it ends the script.
If redlock itself is killed, the locks end with their leases. The program of `run` is killed with
it; other processes that the script started continue.

STATUSES

  #!/usr/bin/env -S redlock lua
  local lock = client:getLock "fleet"       -- deploy.lua web1 web2
  assert(lock:tryLock(600))
  for _, host in ipairs(args) do
      assert(run("ssh", "--", host, "systemctl", "restart", "app"), host)
      lock:check()                          -- raises if the lock is lost
  end]]

local RAISED, LOST, HELD, FAILED, NOT_LUA, NOT_THERE = 1, 123, 124, 125, 126, 127
local KILL_AFTER, GIVE_UP, PAUSE = 5, 5, 0.02       -- seconds

local ENDING = { process.HUP, process.INT, process.QUIT, process.TERM, process.USR1 }
local RELEASE = "USR2"       -- ends the script, after all that it has started

-- ---- the script ------------------------------------------------------------------

local function load_script(path)
    local file, why = io.open(path)
    if not file then
        args.fail(args.words({ why }, 1), why:find "No such file" and NOT_THERE or NOT_LUA)
    end
    file:close()
    local fn
    fn, why = loadfile(path)
    return fn or args.fail(args.words({ why }, 1), NOT_LUA)
end

-- The exit status for an error that a script raised. Errors of the library are often raised as
-- texts that begin with a line number.
local function status_of(err)
    local code, reason
    if redlock.is_error(err) then
        code, reason = err.code, err.reason
    elseif type(err) == "string" then
        code = err:match "redlock: ([%l_]+): "
    end
    if not code then
        return RAISED
    elseif reason or code == "lost" then
        return LOST
    end
    return code == "held" and HELD or FAILED
end

-- A script's error with its traceback, without the frames of the command.
local function traced(err)
    local trace = debug.traceback("", 2):gsub("\n%s*%[C%]: in function 'xpcall'.*", "")
        :gsub("^\n(.-\n)\t%[C%]: in function 'error'\n", "%1")
    return { status = status_of(err),
        text = tostring(err):gsub("^redlock: ", "") .. "\n" .. trace:gsub("^\n", "") }
end

local function status_from(said)
    if said == nil or type(said) == "boolean" then
        return said == false and RAISED or 0
    end
    return tonumber(said) or 0
end

-- The LuaJIT of 2017 (in Debian 11) accepts only texts in assert(), and would complain about an
-- error of the library instead of raising it.
local function assert_any(...)
    local ok, err = ...
    if not ok and redlock.is_error(err) then
        error(err, 0)
    end
    return assert(...)
end

-- The script's run(): starts a program without a shell, and waits for it.
-- @return true; or nil and the exit status, as a shell counts it
local function run(...)
    local argv = { ... }
    validate.text("command of run", argv[1], math.huge)
    for i = 2, select("#", ...) do
        if argv[i] ~= "" then
            validate.text(("argument %d of run"):format(i - 1), argv[i], math.huge)
        end
    end
    local pid, why = process.spawn(argv)
    if not pid then
        report.note("no process: ", why)
        return nil, FAILED
    end
    local status = process.await(pid)
    if status == 0 then
        return true
    end
    return nil, status
end

-- The script's process.
-- @return the exit status
local function run_script(given, script, path, argv)
    process.disregard(ENDING)
    process.heed(process[RELEASE])
    local client = config.client(given, { max_hold = false, signals = { RELEASE } })
    process.forget(config.secret_variables(given))
    config.connect(client)
    argv[0] = path
    local _, raised = pcall(assert, nil, {})
    -- luacheck: push ignore 121
    _G.assert = type(raised) == "table" and assert or assert_any
    _G.redlock, _G.client, _G.args, _G.arg, _G.run = redlock, client, argv, argv, run
    -- luacheck: pop
    local ok, said, status = xpcall(script, traced, unpack(argv))
    client:close()
    if not ok then
        local printed = type(said) == "table"        -- not when memory is short, or it has no text
        report.note(printed and said.text or tostring(said))
        return printed and said.status or RAISED
    end
    return status_from(said == nil and type(status) == "number" and status or said)
end

-- ---- the parent ----------------------------------------------------------------------

-- Running processes that the script has started: its children and theirs, and orphans among them,
-- which became children of this process.
local function started(script)
    local list = {}
    local function add(parent)
        for _, pid in ipairs(process.children(parent)) do
            if pid ~= script and process.is_running(pid) then
                list[#list + 1] = pid
            end
            add(pid)
        end
    end
    add()
    return list
end

local function tell(list, signo)
    for _, pid in ipairs(list) do
        process.kill(pid, signo)
    end
end

-- Ends what the script has started, while the script is stopped; then the script. Processes
-- that are started in reply to the signal, to clean up, do not get it. told: whether the terminal
-- has sent signo to all of them.
local function stop(script, signo, told, kill_after)
    process.kill(script, process.STOP)
    local begun, list = process.now(), started(script)
    tell(told and {} or list, signo)
    while list[1] and process.now() < begun + kill_after + GIVE_UP do
        process.signal(PAUSE)
        list = started(script)
        tell(process.now() >= begun + kill_after and list or {}, process.KILL)
    end
    process.kill(script, process[RELEASE])
    process.kill(script, process.CONT)
end

-- Reaps all ended children. Returns the script's status once it has ended.
local function reap(script)
    local status, pid
    repeat
        status, pid = process.reap(-1)
    until not pid or pid == script
    return pid and status
end

local function attend(script, kill_after)
    local ended_by
    while true do
        local status = reap(script)
        if status then
            return ended_by and 128 + ended_by or status
        end
        local caught, from_terminal = process.signal(60)
        if caught and caught ~= process.CHLD and not ended_by then
            ended_by = caught
            stop(script, caught, from_terminal, kill_after)
        end
    end
end

function _M.main(given, names, argv)
    if not names[1] then
        args.fail "lua needs the name of a file: redlock lua FILE [ARGS]"
    end
    local script = load_script(names[1])
    local lease = config.client_options(given).lease or defaults.lease
    process.catch()
    process.adopt_orphans()
    local pid, why = process.fork()
    if pid == 0 then
        return run_script(given, script, names[1], argv or {})
    end
    return pid and attend(pid, math.min(KILL_AFTER, lease / 2)) or args.fail("no process: " .. why)
end

return _M
