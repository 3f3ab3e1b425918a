-- What those scripts of a fenced lease go on with, behind counter.lua, that not every hold
-- needs: acquire and release have it shorter.
-- With the guard the memory must be that of now: a client may not know yet of a restart.
local guarded = #ARGV[7] > 40
local found = call('mget', KEYS[1], KEYS[2], guarded and 'redlock:{server}:marker' or KEYS[1])
if guarded and sub(found[3] or '', 1, RUN) ~= run then
    run = '?'                -- as if nothing had been counted
end
local value, stored = found[1], counted_in(found[2])
local token = tonumber(ARGV[3])
local counter = stored or of_this_run(call('hget', KEYS[3], ARGV[4]))
-- In the place of a counter, of a server that never counted for the hold, but has heard of larger
-- numbers of the bucket (heal.lua): no counter, but whoever counts here next writes over it.
local lent = run .. '=' .. ARGV[3] .. mine

-- False: nothing was written, for want of a floor, or out of range.
local function count_to(n)
    if found[2] == run .. n .. mine then      -- works when the server is out of memory, too
        call('pexpire', KEYS[2], ARGV[5])
        return true
    end
    local floor = of_this_run(call('hget', KEYS[3], ARGV[4]))
    if not floor or not write(n, floor) then
        return false
    end
    counter = n
    return true
end
