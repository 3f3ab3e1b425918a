#!/usr/bin/env -S redlock lua
-- Deploys to the idle half of an installation, blue or green, and makes it the live one. If it then
-- turns out not to work, makes the other half live again.
--
--     blue_green.lua REDIS DEPLOY HEALTHY
--     blue_green.lua redis://127.0.0.1 './deploy.sh "$1"' 'curl -fsm 2 "http://$1.internal/health"'
--
-- DEPLOY and HEALTHY are commands of the shell. $1 is the half, and `live` once it is switched.
-- The key `live` of that Redis names the live half. The load balancers read it. Needs redis-cli.
--
-- The lock `deploy` is held throughout. All programs that change `live` take the lock `switch` for
-- the moment, and write under its fencing token. So a run that was paused, and lost a lock without
-- knowing, neither switches nor rolls back what another one has switched since.
local uri, deploy, healthy = args[1], args[2], args[3]
assert(healthy, "usage: blue_green.lua REDIS DEPLOY HEALTHY")

-- Sends a command. The reply of a script of resources has two elements, one a line.
local function send(...)
    local reply, words = os.tmpname(), {}
    for i, word in ipairs { ... } do
        words[i] = tostring(word)
    end
    run("sh", "-c", 'redis-cli -u "$@" > "$0"', reply, uri, unpack(words))
    local file = assert(io.open(reply))
    local first, second = file:read("*l", "*l")
    file:close()
    os.remove(reply)
    if not tonumber(first) then
        return nil, first or "no reply"
    end
    return { tonumber(first), second }
end

local function sh(command, half)
    return run("sh", "-c", command, "sh", half)
end

local live = redlock.resource.new("live", send)

-- Runs fn(now, set) under the lock `switch`; set(half) makes a half live.
local function switching(fn)
    local lock = client:getFencedLock "switch"
    local _, token = assert(lock:tryLock(60))
    local _, now = assert(live:get(token))          -- from here on older holders are refused
    local result = fn(now or "green", function(half)
        local ok, why = live:set(token, half)
        assert(ok, why == "stale" and "somebody else has switched meanwhile" or why)
    end)
    assert(lock:unlock())
    return result
end

local lock = client:getLock "deploy"
assert(lock:tryLock(600))
local before = switching(function(now) return now end)
local idle = before == "blue" and "green" or "blue"
assert(sh(deploy, idle), "cannot deploy to " .. idle)
assert(sh(healthy, idle), idle .. " is not healthy; what is live stays")
switching(function(now, set)
    lock:check()                                    -- the outer lock is lost: nothing is switched
    assert(now == before, "somebody else has switched meanwhile")
    set(idle)
    -- From here on the inner lock decides, whatever becomes of the outer one.
    if not sh(healthy, "live") then
        set(before)
        error("not healthy when live; rolled back to " .. before)
    end
end)
print(idle .. " is live")
assert(lock:unlock())
