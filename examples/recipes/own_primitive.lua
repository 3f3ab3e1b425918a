#!/usr/bin/env -S redlock lua
-- A lock made of your own scripts. One person at a time has the desk; others can read who.
--
--     own_primitive.lua DESK NAME COMMAND
local desk, person, command = args[1], args[2], args[3]
assert(command, "usage: own_primitive.lua DESK NAME COMMAND")

-- What acquire, extend and release do on one server. The library does the rest.
local seat = redlock.primitive {
    name = "seat",
    acquire = [[
        local has = redis.call('hget', KEYS[1], 'value')
        if has == ARGV[1] then return 2 end                             -- asked twice
        if has then return { 0, redis.call('pttl', KEYS[1]), has } end
        redis.call('hset', KEYS[1], 'value', ARGV[1], 'person', ARGV[3])
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    ]],
    extend = [[
        local has = redis.call('hget', KEYS[1], 'value')
        if not has then return 0 end
        if has ~= ARGV[1] then return -1 end
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
            redis.call('pexpire', KEYS[1], ARGV[2])
        end
        return 1
    ]],
    release = [[
        local has = redis.call('hget', KEYS[1], 'value')
        if not has then return 0 end
        if has ~= ARGV[1] then return -1 end
        return redis.call('del', KEYS[1])
    ]],
    args = function() return { person } end,
}

local lock = client:get(seat, "desk:" .. desk)
assert(lock:tryLock(5))
local ok, status = run("sh", "-c", command)
assert(lock:unlock())
return ok or status
