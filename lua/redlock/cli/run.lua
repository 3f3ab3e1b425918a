--- redlock run NAME -- CMD...: a command under a lock.

local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"

local _M = {}

local OPTIONS = { ["--wait"] = "=number", ["--no-wait"] = "", ["--lease"] = "=number",
    ["--max-hold"] = "=number", ["--kill-after"] = "=number", ["--plain"] = "", ["--"] = true }

local LOST, HELD, FAILED = 123, 124, 125
local TICK = 0.25             -- seconds between two looks at a lock that nothing happens to
local KILL_AFTER = 5

local ENDING = { [process.INT] = true, [process.TERM] = true, [process.HUP] = true,
    [process.QUIT] = true }

--- Waits for the lock; a signal ends the wait.
-- @return true; or nil, an exit status, and an error to be told
local function acquire(lock, wait)
    local future = wait and lock:tryLockAsync(wait) or lock:lockAsync()
    repeat
        future:get(TICK)
        local signo = process.signal(0)
        if signo and ENDING[signo] and not future:isDone() then
            future:cancel()
            return nil, 128 + signo
        end
    until future:isDone()
    local ok, err = future:get()
    if ok then
        return true
    end
    return nil, err.code == "held" and HELD or FAILED, err
end

--- Stays with the command until it ends, and ends it when the lock is lost.
-- @return its exit status; and why the lock was lost meanwhile, or nil
local function attend(lock, pid, group, kill_after)
    local target, lost, deadline = group and -pid or pid, nil, nil
    local now = lock.client.now
    lock:onLost(function(_, reason) lost = reason end)
    while true do
        local pause = math.min(TICK, deadline and math.max(deadline - now(), 0)
            or math.max(lock:remaining(), 0.001))
        local signo, from_terminal = process.signal(pause)
        if signo and signo ~= process.CHLD and not (from_terminal and not group) then
            process.kill(target, signo)
        end
        local status = process.reap(pid)
        if status then
            if lost and group then
                process.kill(target, process.KILL)     -- what it left behind
            end
            return status, lost
        end
        if not lost and not lock:isValid() then
            lost = lost or "expired"
        end
        if lost and not deadline then
            report.note("the lock is lost (", lost, "); ending the command")
            process.kill(target, process.TERM)
            deadline = now() + kill_after
        elseif deadline and now() >= deadline then
            process.kill(target, process.KILL)
            deadline = math.huge
        end
    end
end

--- Lets the lock go behind the command.
-- @return the exit status of it all
local function finish(lock, status, lost)
    if lost then
        return LOST
    end
    local ok, err = lock:unlock()
    if ok or err.code == "not_held" then
        return status
    elseif err.code == "unknown" then
        report.note("the release was not confirmed, the lock may stay closed for its lease: ",
            report.error(err))
        return status
    end
    report.note("the lock was lost before the command ended: ", report.error(err))
    return LOST
end

--- What changes for the command; false: it does not get that variable.
local function environment(lock, given)
    local env = {}
    for _, variable in ipairs(config.secret_variables(given)) do
        env[variable] = false
    end
    -- Without a token none is handed on: that of a `redlock run` around us is another lock's.
    local token = lock.token and lock:token()
    env.REDLOCK_NAME = lock:getName()
    env.REDLOCK_TOKEN = token and ("%.0f"):format(token) or false
    return env
end

--- @return the exit status
function _M.main(list)
    local given, names, argv = args.parse(list, 2, OPTIONS)
    if given["--help"] then
        return nil
    end
    if names[2] and not argv then
        args.fail("the command goes behind --: redlock run " .. names[1] .. " -- "
            .. args.words(names, 2))
    end
    local name = args.name(names, "run")
    if not argv or #argv == 0 then
        args.fail("no command is given: redlock run NAME -- CMD...")
    end
    local wait = given["--no-wait"] and 0 or given["--wait"]
    -- The command may take as long as it likes: its end is the end of the hold.
    local client = config.client(given, { max_hold = false })
    config.connect(client)
    process.catch()
    local lock = given["--plain"] and client:getLock(name) or client:getFencedLock(name)
    local ok, status, err = acquire(lock, wait)
    if not ok then
        client:close()
        if err and status == HELD then
            report.note(lock:describe(), " is held by somebody else")
        elseif err then
            report.note(report.error(err))
        end
        return status
    end
    -- Its own group is signalled as a whole, but could not read from the terminal.
    local group = not process.is_terminal(0)
    local pid, why = process.spawn(argv, { group = group, env = environment(lock, given) })
    if not pid then
        lock:unlock()
        args.fail("no process: " .. why)
    end
    local lost
    status, lost = attend(lock, pid, group, given["--kill-after"] or KILL_AFTER)
    status = finish(lock, status, lost)
    client:close()
    return status
end

return _M
