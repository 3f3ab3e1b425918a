-- Begins the scripts of a fenced lease.
-- KEYS[1] the lock, KEYS[2] its counter, KEYS[3] the floors of this server. ARGV[1] the attempt's
-- value, [2] the lease in ms, [3] the token or 0, [4] the name's bucket, [5] how long an idle
-- counter stays, in ms, [6] a number that no counter can have reached (floors.lua), [7] the name
-- of the memory: the marker as its client knows it; without the guard the server's master_replid.
--
-- A counter may vanish, and then continues from the floor of its bucket, or from the base of all
-- buckets where that is larger. Counting raises the floor, in steps, and needs a base. So the loss
-- of the floors is seen before their counters may be lost as well, and no number below a floor is
-- ever counted twice. The field `most` is the largest floor: tell.lua tells it to others.
--
-- The first RUN letters of both texts name the memory in which they were written: data that a
-- restarted server has kept may be older than the numbers it gave out. (Lua writes whole numbers
-- below 10^14 in full; string.format would take longer.) A counter ends with a space and the first
-- 8 letters of the value it was written for, which current.lua reads.
--
-- A number out of range counts as missing: a counter then continues from its floor, and no client
-- sees such a floor. Otherwise all servers would confirm one server's mistake, for ever.
local RUN, STEP = 8, 32
local call, byte, sub, tonumber, max = redis.call, string.byte, string.sub, tonumber, math.max
local run, limit = sub(ARGV[7], 1, RUN), tonumber(ARGV[6])
local mine = ' ' .. sub(ARGV[1], 1, RUN)

-- A number of this memory; nil: none, or of an earlier one. last: where it ends in the text.
local function of_this_run(text, last)
    local n = text and sub(text, 1, RUN) == run and tonumber(sub(text, RUN + 1, last))
    return n and n >= 0 and n < limit and n or nil
end

local most                   -- the largest floor, as floor_of_bucket() found it

-- The floor of the name's bucket; nil: this memory has no base.
local function floor_of_bucket()
    local found = redis.pcall('hmget', KEYS[3], ARGV[4], 'base', 'most')
    if found.err and not string.find(found.err, 'WRONGTYPE', 1, true) then
        call('hmget', KEYS[3], 'base')       -- raises it
    end
    local base, own = of_this_run(found[2]), of_this_run(found[1])
    most = of_this_run(found[3])
    if base and not own and sub(found[1] or '', 1, RUN) == run then
        return most          -- the bucket's is out of range
    end
    return base and max(base, own or 0)
end

-- Like of_this_run(), for a counter's text.
local function counted_in(text)
    return text and byte(text, -1 - RUN) == 32 and of_this_run(text, -2 - RUN) or nil
end

-- False: out of range; nothing was written.
local function write(n, floor)
    if n >= limit then
        return false
    end
    if n > floor then
        if not most then
            return false
        end
        floor = n - n % STEP + STEP - 1
        call('hset', KEYS[3], ARGV[4], run .. floor, 'most', run .. max(floor, most))
    end
    call('set', KEYS[2], run .. n .. mine, 'PX', ARGV[5])
    return true
end
