-- After now.lua. KEYS[1] a lock, [2] the slots of its permits, [3] their holders, [4] the queue of
-- a fair lock, [5] the entry of each waiter in it, [6] when each entry expires, [7] a latch, [8]
-- its arrivals; ARGV[1], [2] the channels of waiters for the lock, and for a permit.
-- {1, 0, text}: 'r left 0 length:who' for each reader, 'p left slot length:who' for each permit,
-- 'q ticket 0 length:waiter who' for each waiter in the queue, 100 of each at most, 'l missing
-- count length:id' of a latch that is not open, and 'w lock permits 0:', the numbers of waiters.
-- who: 20 digits of a digest of the value, and its card. left: ms.
local MOST, rows = 100, {}

local function who(value)
    return string.sub(redis.sha1hex(value), 1, 20) .. string.sub(value, 41, 256)
end

local function add(kind, a, b, text)
    rows[#rows + 1] = table.concat({ kind, a, b, #text }, ' ') .. ':' .. text
end

if call('type', KEYS[1]).ok == 'zset' then
    local all = call('zrangebyscore', KEYS[1], '(' .. now, '+inf', 'withscores', 'limit', 0, MOST)
    for i = 1, #all, 2 do
        if string.find(all[i], '^1 %x') then
            add('r', all[i + 1] - now, 0, who(string.sub(all[i], 3)))
        end
    end
end
local slots = call('zrangebyscore', KEYS[2], '(' .. now, '+inf', 'withscores', 'limit', 0, MOST)
for i = 1, #slots, 2 do
    add('p', slots[i + 1] - now, slots[i], who(call('hget', KEYS[3], slots[i]) or ''))
end
local line = call('zrange', KEYS[4], 0, MOST - 1, 'withscores')
for i = 1, #line, 2 do
    local until_ms = tonumber(call('zscore', KEYS[6], line[i]) or 0)
    local value = string.match(call('hget', KEYS[5], line[i]) or '', '^1 %d+ (.*) %d+$') or ''
    if until_ms > now then
        add('q', line[i + 1], 0, line[i] .. ' ' .. who(value))
    end
end
local id, count = unpack(redis.pcall('hmget', KEYS[7], 'id', 'count'))
local arrived = redis.pcall('zcard', KEYS[8])
local missing = id and (tonumber(count) or 0) - (tonumber(arrived) or 0) or 0
if missing > 0 and missing < 1e15 then
    add('l', missing, count, id)
end
local heard = redis.pcall('pubsub', 'numsub', ARGV[1], ARGV[2])
if not heard.err then
    add('w', heard[2], heard[4], '')
end
return {1, 0, table.concat(rows)}
