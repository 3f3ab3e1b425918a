-- Kills a random server of three with SIGKILL and starts it again empty, over and over, under
-- a lock that sits on a bare majority, while a rival asks for it.
--
--     luajit restarts.lua RUNS on|off SEED
--
-- on, off: the guard. The restarts are spaced by it: the next one comes when all servers are
-- admitted again. Prints "<runs> <double holds>". Both sides are asked in one process, by one
-- clock: it is a double hold for sure when the first is valid after the second has it.
local support = require "spec.support"

local runs, guarded, seed = tonumber(arg[1]), arg[2] == "on", tonumber(arg[3])
local LEASE = guarded and 0.3 or 1.5         -- without it nothing is waited for
math.randomseed(seed)

local cluster = support.cluster(3, { new = true })
if guarded then
    cluster:admit(LEASE)
end
local proxies = support.proxies(cluster)
local options = { max_lease = LEASE, lease = LEASE, restart_guard = guarded,
    timeout = 0.1, connect_timeout = 0.3 }
local holder, rival = support.client(proxies, options), support.warm_client(cluster, options)

local function all_vote()
    for _, row in ipairs(rival:check()) do
        if not row.ready or row.guard == "guarded" then
            return false
        end
    end
    return true
end

local doubles = 0
for run = 1, runs do
    local missing, victim = proxies[math.random(3)], cluster[math.random(3)]
    missing:refuse(true)
    missing:cut()
    local a, b = holder:getLock("x" .. run), rival:getLock("x" .. run)
    support.eventually(function() return a:tryLock(0, LEASE) end, 10, "the lock")
    victim:restart()
    while a:isValid() do
        if b:tryLock(0, LEASE) then
            doubles = doubles + (a:isValid() and 1 or 0)
            b:unlock()
            break
        end
        support.sleep(0.001)
    end
    a:unlock()
    missing:refuse(false)
    support.eventually(all_vote, 20, "all servers to vote")
end
print(runs, doubles)
