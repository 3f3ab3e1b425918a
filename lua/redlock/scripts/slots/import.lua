-- After slots.lua. ARGV[4] the value of the permit, which ARGV[1] replaces in its slot.
-- {1, slot}; {2, slot}: done before; 0: gone; {-1, 0, who}: the slot has another holder.
if mine == agreed then
    return {2, agreed}
end
local value = call('hget', KEYS[2], agreed)
if value ~= ARGV[4] then
    return value and {-1, 0, string.sub(value, 1, 20) .. string.sub(value, 41, 215)} or 0
end
local ends = math.max(now + ARGV[2], tonumber(call('zscore', KEYS[1], agreed)))
free(agreed)
put(agreed, ends)
return {1, agreed}
