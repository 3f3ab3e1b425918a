-- Comes after counter.lua in the rarer scripts of a fenced lease; acquire and release have a
-- shorter version of it. With the guard it checks that the server's memory is still the one that
-- the client knows: the server may have restarted since.
local guarded = #ARGV[7] > 40
local found = call('mget', KEYS[1], KEYS[2], guarded and 'redlock:{server}:marker' or KEYS[1])
if guarded and sub(found[3] or '', 1, RUN) ~= run then
    run = '?'                -- so that no counter is of this run
end
local value, stored = found[1], counted_in(found[2])
local token = tonumber(ARGV[3])
local counter = stored or floor_of_bucket()
-- Stored in the counter's place by heal.lua, on a server that has no counter for this hold, but
-- already a floor above its token. It is not a counter, and is overwritten by the next one.
local lent = run .. '=' .. ARGV[3] .. mine

-- Sets the counter to n. Returns false, and has written nothing, without a floor or if n is out of
-- range.
local function count_to(n)
    if found[2] == run .. n .. mine then      -- it is n: pexpire works even without room for writes
        call('pexpire', KEYS[2], ARGV[5])
        return true
    end
    local floor = floor_of_bucket()
    if not floor or not write(n, floor) then
        return false
    end
    counter = n
    return true
end
