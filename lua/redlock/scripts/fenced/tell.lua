-- What a server knows of its floors (c/core/rounds/teach.h). KEYS[1] the floors; ARGV[1] a number
-- that no counter can have reached, ARGV[2] "1" with the guard, else "".
-- {1, n}: the largest number that it gave out; {0, n}: it has no base, n is what an earlier memory
-- gave out, or 0; {2, n}: a number is out of range; {-1, 0}: the floors of this memory are gone.
local info = redis.call('info', 'replication')   -- who cannot learn the life must not count
local life = string.match(info, 'master_replid:(%w+)')
local kept = redis.pcall('hmget', KEYS[1], 'marker', 'base', 'most')
if kept.err and not string.find(kept.err, 'WRONGTYPE', 1, true) then
    return kept
end

local limit, run = tonumber(ARGV[1]), string.sub(life, 1, 8)
local function number(text)
    return tonumber(string.match(text or '', '^%d+$', 9)) or 1e15
end
local earlier = number(kept[3])
earlier = earlier + 1 < limit and earlier or 0
if ARGV[2] == '1' then
    local marker = redis.call('get', 'redlock:{server}:marker') or ''
    local inc, state, of = string.match(marker, '^(%x+) v4 (%a) (%x+) ')
    if (state ~= 'a' and state ~= 's') or of ~= string.sub(life, 1, 16) then
        return {0, earlier}
    elseif kept[1] ~= inc then
        -- Who cannot write floors could not name a new memory's either, and is no judge.
        local written = redis.pcall('hset', KEYS[1], 'marker', '')
        if type(written) == 'table' and not string.find(written.err, 'WRONGTYPE', 1, true) then
            return written
        end
        return {-1, 0}
    end
    run = string.sub(inc, 1, 8)
end
local base, most = kept[2] or '', kept[3] or ''
if string.sub(base, 1, 8) ~= run and string.sub(most, 1, 8) ~= run then
    return {0, earlier}
end
local n = math.max(number(base), number(most))
return {n + 1 < limit and 1 or 2, n}
