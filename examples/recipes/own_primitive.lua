#!/usr/bin/env -S redlock lua
-- A lock of your own scripts: a desk that one person at a time has, and on which that person's name
-- is to be read by others.
--
--     own_primitive.lua DESK NAME COMMAND
local desk, person, command = args[1], args[2], args[3]
assert(command, "usage: own_primitive.lua DESK NAME COMMAND")

-- What taking, keeping and letting go mean on one server; the rest is the library's.
local seat = redlock.primitive {
    name = "seat",
    acquire = [[
        local has = redis.call('hget', KEYS[1], 'value')
        if has == ARGV[1] then return 2 end                             -- asked again
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
