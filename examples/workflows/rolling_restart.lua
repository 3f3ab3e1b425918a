#!/usr/bin/env -S redlock lua
-- Restarts the machines of a fleet one at a time, whoever asks for it, and from where:
--
--     rolling_restart.lua RESTART HEALTHY HOST...
--     rolling_restart.lua 'ssh {} systemctl restart app' 'curl -fsm 2 http://{}/health' web1 web2
--
-- The two are commands of the shell, in which {} is a host. Stops where a machine does not come
-- back; as nothing is restarted while one is ill, so does whoever starts this next.
local UP_WITHIN = 60                                -- seconds

local restart, healthy, hosts = args[1], args[2], { unpack(args, 3) }
assert(hosts[1], "usage: rolling_restart.lua RESTART HEALTHY HOST...")

local function sh(command, host)
    local ok = os.execute((command:gsub("{}", function() return host end)))
    return ok == 0 or ok == true
end

local function await_health(host)
    for _ = 1, UP_WITHIN do
        if sh(healthy, host) then
            return true
        end
        os.execute "sleep 1"
    end
end

local lock = client:getLock "rolling-restart"
assert(lock:lock())                                 -- behind whoever is at it
for _, host in ipairs(hosts) do
    for _, other in ipairs(hosts) do
        assert(sh(healthy, other), other .. " is not healthy; nothing is restarted")
    end
    lock:check()                                    -- raises when somebody else may be at it
    print("restarting " .. host)
    assert(sh(restart, host), host .. " cannot be restarted")
    assert(await_health(host), host .. " does not come back")
end
assert(lock:unlock())
