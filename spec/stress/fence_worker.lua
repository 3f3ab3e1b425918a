-- One of several processes that take fenced locks as fast as they can, with leases of a few
-- milliseconds and pauses beyond them, and account for every token.
--
--     luajit spec/stress/fence_worker.lua SEED HOLDS PORT [unconfirmed] -- URI...
--
-- PORT: of a Redis that never fails, which keeps the accounts. unconfirmed: without the
-- second round: each confirmation is believed unseen. Prints what is wrong, then "done HOLDS".
local support = require "spec.support"
local redlock = require "redlock"
local fenced = require "redlock.kinds.fenced_lock"
local resp = require "spec.support.resp"

local NAMES = 4

-- KEYS: all tokens of a name, its largest one; ARGV: a token, the largest before the attempt.
local ACCOUNT = [[
    local wrong = ''
    if redis.call('sadd', KEYS[1], ARGV[1]) == 0 then
        wrong = 'repeated'
    elseif tonumber(ARGV[1]) <= tonumber(ARGV[2]) then
        wrong = 'not larger than ' .. ARGV[2] .. ', which was out before'
    end
    if tonumber(ARGV[1]) > tonumber(redis.call('get', KEYS[2]) or 0) then
        redis.call('set', KEYS[2], ARGV[1])
    end
    return wrong
]]
-- A resource that takes writes only by tokens that are not below the largest it has seen.
local WRITE = [[
    local mark = tonumber(redis.call('get', KEYS[1]) or 0)
    if tonumber(ARGV[1]) < mark then
        return 0
    end
    redis.call('set', KEYS[1], ARGV[1])
    redis.call('rpush', KEYS[2], ARGV[1])
    return 1
]]

local function primitive(unconfirmed)
    if not unconfirmed then
        return fenced
    end
    local copy = setmetatable({}, getmetatable(fenced))
    for name, value in pairs(fenced) do
        copy[name] = value
    end
    copy.confirm_script = "return 1"
    return copy
end

local seed, holds, port = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])
local unconfirmed, uris = arg[4] == "unconfirmed", {}
for i = (unconfirmed and 6 or 5), #arg do
    uris[#uris + 1] = arg[i]
end
math.randomseed(seed)
local random = math.random
local accounts = assert(resp.connect(port))
local client = redlock.new { nodes = uris, cluster = "spec",
    max_lease = 0.2, lease = 0.1, retry_delay = 0.005,
    fallback = 0.05, patience = 30 }
local prim = primitive(unconfirmed)

local function hold(name)
    local l = client:get(prim, name)
    local before = accounts:call("GET", name .. ":largest") or 0
    local ok, token = l:tryLock(2, 0.005 + random() * 0.095)
    if not ok then
        return false
    end
    local text = ("%.0f"):format(token)
    local wrong = accounts:call("EVAL", ACCOUNT, 2, name .. ":tokens", name .. ":largest", text,
        before)
    if wrong ~= "" then
        print(("token %s of %s is %s"):format(text, name, wrong))
    end
    local dice = random()
    if dice < 0.02 then
        support.sleep(random() * 0.2)         -- past the lease, more often than not
    elseif dice < 0.1 then
        l:extend(0.1)
    end
    accounts:call("EVAL", WRITE, 2, name .. ":mark", name .. ":writes", text)
    if random() < 0.2 then
        l:export()           -- as if we had died: nobody releases it
    else
        l:unlock()
    end
    return true
end

local done = 0
while done < holds do
    if hold("name" .. random(NAMES)) then
        done = done + 1
    end
end
client:close()
print("done " .. done)
