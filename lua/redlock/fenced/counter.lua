-- What the scripts of a fenced lease begin with.
-- KEYS[1] the lock, KEYS[2] its counter, KEYS[3] the floors of this server; with the guard,
-- the last KEY is the marker. ARGV[1] the attempt's value, [2] the lease in ms, [3] the token
-- or 0, [4] the name's bucket, [5] how long an idle counter stays, in ms; the last ARGV is
-- the server's run_id, or what the marker must be, which begins with it.
--
-- A counter may vanish: it goes on from the floor of its bucket, above which no counter was
-- ever written there. Floors are raised in steps, so the end of a counter's step is covered
-- already. Both are followed by the run in which they were written: what a restarted server
-- has kept may be older than what it had given out.
local STEP = 32
local run = string.sub(string.match(ARGV[#ARGV], '^%S+'), 1, 8)

-- A number of this run; nil: none, or of a run before.
local function of_this_run(text)
    local n, tag = string.match(text or '', '^(%d+) (%S+)$')
    return tag == run and tonumber(n) or nil
end

local found = redis.call('mget', KEYS[1], KEYS[2])
local value, stored = found[1], of_this_run(found[2])
local token = tonumber(ARGV[3])
local counter = stored or of_this_run(redis.call('hget', KEYS[3], ARGV[4]))

-- False: nothing was written, for want of a floor.
local function count_to(n)
    if n == stored then      -- works when the server is out of memory, too
        redis.call('pexpire', KEYS[2], ARGV[5])
        return true
    end
    if not stored or n - n % STEP > stored then
        local floor = of_this_run(redis.call('hget', KEYS[3], ARGV[4]))
        if not floor then
            return false
        end
        if n > floor then
            floor = n - n % STEP + STEP - 1
            redis.call('hset', KEYS[3], ARGV[4], string.format('%.0f %s', floor, run))
        end
    end
    redis.call('set', KEYS[2], string.format('%.0f %s', n, run), 'PX', ARGV[5])
    counter = n
    return true
end
