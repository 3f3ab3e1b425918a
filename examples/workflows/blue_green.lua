#!/usr/bin/env -S redlock lua
-- Deploys to the half of an installation that is idle, blue or green, and makes it the live one:
--
--     blue_green.lua REDIS DEPLOY HEALTHY
--     blue_green.lua redis://10.0.0.9 './deploy.sh {}' 'curl -fsm 2 http://{}.internal/health'
--
-- Which half is live is the key `live` of that Redis, which the load balancers read. It is written
-- under the fencing token of the lock: whoever was paused in the middle, and has lost the lock
-- without knowing, switches nothing back. Wants redis-cli.
local uri, deploy, healthy = args[1], args[2], args[3]
assert(healthy, "usage: blue_green.lua REDIS DEPLOY HEALTHY")

local function quoted(word)
    return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

-- Sends a command; the reply of a script of resources has two elements, one a line.
local function send(...)
    local words = { "redis-cli -u", quoted(uri) }
    for _, word in ipairs { ... } do
        words[#words + 1] = quoted(word)
    end
    local pipe = assert(io.popen(table.concat(words, " ")))
    local first, second = pipe:read "*l", pipe:read "*l"
    pipe:close()
    if not tonumber(first) then
        return nil, first or "no reply"
    end
    return { tonumber(first), second }
end

local function sh(command, half)
    local ok = os.execute((command:gsub("{}", function() return half end)))
    return ok == 0 or ok == true
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
