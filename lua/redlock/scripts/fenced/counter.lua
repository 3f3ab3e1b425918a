-- What the scripts of a fenced lease begin with.
-- KEYS[1] the lock, KEYS[2] its counter, KEYS[3] the floors of this server. ARGV[1] the attempt's
-- value, [2] the lease in ms, [3] the token or 0, [4] the name's bucket, [5] how long an idle
-- counter stays, in ms, [6] what no counter can have come to (floors.lua), [7] what names the
-- memory: the marker as its client knows it; without the guard the server's master_replid.
--
-- A counter may vanish: it goes on from the floor of its bucket, which is raised, in steps,
-- with whatever is counted, and nothing is counted without one. So a floor that was lost is
-- seen before its counters may be lost as well: below it nothing is ever counted twice.
--
-- Both numbers stand behind the memory in which they were written, in so many letters: what a
-- restarted server has kept may be older than what it had given out. (Lua writes whole
-- numbers below 10^14 in full; string.format would take longer.) Behind a space a counter
-- has the first 8 letters of the value that it was written for: current.lua reads them.
--
-- A number that is out of range is none. So a counter goes on from its floor, and of a floor
-- nobody is told: what one server has by mistake would be confirmed by all, and last for ever.
local RUN, STEP = 8, 32
local call, byte, sub, tonumber = redis.call, string.byte, string.sub, tonumber
local run, limit = sub(ARGV[7], 1, RUN), tonumber(ARGV[6])
local mine = ' ' .. sub(ARGV[1], 1, RUN)

-- A number of this memory; nil: none, or of one before. last: where it ends in the text.
local function of_this_run(text, last)
    local n = text and sub(text, 1, RUN) == run and tonumber(sub(text, RUN + 1, last))
    return n and n >= 0 and n < limit and n or nil
end

-- The same of a counter's text.
local function counted_in(text)
    return text and byte(text, -1 - RUN) == 32 and of_this_run(text, -2 - RUN) or nil
end

-- False: out of range, and nothing was written.
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
