-- Begins the scripts of a fenced lease.
-- KEYS[1] the lock, KEYS[2] its counter, KEYS[3] the floors of this server. ARGV[1] the attempt's
-- value, [2] the lease in ms, [3] the token or 0, [4] the name's bucket, [5] how long an idle
-- counter stays, in ms, [6] a number that no counter can have reached (floors.lua), [7] the name
-- of the memory: the marker as its client knows it; without the guard the server's master_replid.
--
-- A counter may vanish, and then continues from the floor of its bucket. Counting raises the
-- floor, in steps, and needs a floor. So the loss of a floor is seen before its counters may be
-- lost as well, and no number below it is ever counted twice.
--
-- The first RUN letters of both texts name the memory in which they were written: data that a
-- restarted server has kept may be older than the numbers it gave out. (Lua writes whole numbers
-- below 10^14 in full; string.format would take longer.) A counter ends with a space and the first
-- 8 letters of the value it was written for, which current.lua reads.
--
-- A number out of range counts as missing: a counter then continues from its floor, and no client
-- sees such a floor. Otherwise all servers would confirm one server's mistake, for ever.
local RUN, STEP = 8, 32
local call, byte, sub, tonumber = redis.call, string.byte, string.sub, tonumber
local run, limit = sub(ARGV[7], 1, RUN), tonumber(ARGV[6])
local mine = ' ' .. sub(ARGV[1], 1, RUN)

-- A number of this memory; nil: none, or of an earlier one. last: where it ends in the text.
local function of_this_run(text, last)
    local n = text and sub(text, 1, RUN) == run and tonumber(sub(text, RUN + 1, last))
    return n and n >= 0 and n < limit and n or nil
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
        floor = n - n % STEP + STEP - 1
        call('hset', KEYS[3], ARGV[4], run .. floor)
    end
    call('set', KEYS[2], run .. n .. mine, 'PX', ARGV[5])
    return true
end
