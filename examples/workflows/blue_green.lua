#!/usr/bin/env -S redlock lua
-- Deploys to the half of an installation that is idle, blue or green, and makes it the live one:
--
--     blue_green.lua REDIS DEPLOY HEALTHY
--     blue_green.lua redis://10.0.0.9 './deploy.sh "$1"' 'curl -fsm 2 "http://$1.internal/health"'
--
-- The last two are commands of the shell, in which $1 is the half.
-- Which half is live is the key `live` of that Redis, which the load balancers read. It is written
-- under the fencing token of the lock: whoever was paused in the middle, and has lost the lock
-- without knowing, switches nothing back. Wants redis-cli.
local uri, deploy, healthy = args[1], args[2], args[3]
assert(healthy, "usage: blue_green.lua REDIS DEPLOY HEALTHY")

-- Sends a command; the reply of a script of resources has two elements, one a line.
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

local lock = client:getFencedLock "deploy"
local _, token = assert(lock:tryLock(600))
local live = redlock.resource.new("live", send)

local _, now = assert(live:get(token))              -- from here on older holders are refused
local idle = now == "blue" and "green" or "blue"
assert(sh(deploy, idle), "cannot deploy to " .. idle)
assert(sh(healthy, idle), idle .. " is not healthy; what is live stays")
local ok, why = live:set(token, idle)
assert(ok, why == "stale" and "somebody else has deployed meanwhile" or why)
print(idle .. " is live")
assert(lock:unlock())
