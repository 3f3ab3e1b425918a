-- After memory.lua and fenced/counter.lua. KEYS[1] the holders of the slots, [2] the slot's
-- counter, [3] the floors of this server. ARGV[1] the permit's value, [2] its slot, [3] the token
-- to confirm, or 0; the others as in counter.lua.
-- {1, counter, text}: it was counted last for this permit, up to the token at least; 0: the permit
-- has another slot here, or none; -1: no base.
if call('hget', KEYS[1], ARGV[2]) ~= ARGV[1] then
    return 0
end
local text, least = call('get', KEYS[2]), floor_of_bucket()
if not least then
    return -1
end
local counter = counted_in(text)
local known = counter and sub(text, -RUN) == sub(ARGV[1], 1, RUN)
local n = math.max(known and counter or (counter or least) + 1, tonumber(ARGV[3]))
if n ~= counter and not write(n, least) then
    return -1
end
return {1, n, n .. ''}       -- also as text, in which the servers must agree
