#!/usr/bin/env -S redlock lua
-- Restarts the machines of a fleet one at a time, also when several people start it at once:
--
--     rolling_restart.lua RESTART HEALTHY HOST...
--     rolling_restart.lua 'ssh -- "$1" systemctl restart app' \
--         'curl -fsm 2 "http://$1/up"' web1 web2
--
-- RESTART and HEALTHY are shell commands, in which $1 is a host. The run stops if a machine
-- does not come back. The next run stops, too, until every machine is healthy. To restart several
-- at a time: drain.lua.
local UP_WITHIN = 60                                -- seconds

local restart, healthy, hosts = args[1], args[2], { unpack(args, 3) }
assert(hosts[1], "usage: rolling_restart.lua RESTART HEALTHY HOST...")

local function sh(command, host)
    return run("sh", "-c", command, "sh", host)
end

local function await_health(host)
    for _ = 1, UP_WITHIN do
        if sh(healthy, host) then
            return true
        end
        run("sleep", "1")
    end
end

local lock = client:getLock "rolling-restart"
assert(lock:lock())                                 -- after other runs
for _, host in ipairs(hosts) do
    for _, other in ipairs(hosts) do
        assert(sh(healthy, other), other .. " is not healthy; nothing is restarted")
    end
    lock:check()                                    -- raises if another run may have the lock
    print("restarting " .. host)
    assert(sh(restart, host), host .. " cannot be restarted")
    assert(await_health(host), host .. " does not come back")
end
assert(lock:unlock())
