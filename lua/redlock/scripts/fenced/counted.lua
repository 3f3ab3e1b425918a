-- Follows counter.lua in the rarer scripts of a fenced lease; acquire and release have a shorter
-- version of it. With the guard the memory must be the present one: a client may not yet know of
-- a restart.
local guarded = #ARGV[7] > 40
local found = call('mget', KEYS[1], KEYS[2], guarded and 'redlock:{server}:marker' or KEYS[1])
if guarded and sub(found[3] or '', 1, RUN) ~= run then
    run = '?'                -- no counter is of this run
end
local value, stored = found[1], counted_in(found[2])
local token = tonumber(ARGV[3])
local counter = stored or of_this_run(call('hget', KEYS[3], ARGV[4]))
-- Stands in for the counter on a server that never counted for the hold, but has been taught larger
-- numbers of the bucket (heal.lua). It is not a counter; the next count overwrites it.
local lent = run .. '=' .. ARGV[3] .. mine

-- False: without a floor, or out of range; nothing was written.
local function count_to(n)
    if found[2] == run .. n .. mine then      -- pexpire works even when memory is full
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
