-- Comes after acquire.lua and lock/shape.lua.
local longest, which = -2, 0
for i = 1, n do
    local left = found[i] ~= ARGV[1] and redis.call('pttl', KEYS[i]) or -2
    local other = (left == -1 or left > 0 and not found[i]) and no_lock(KEYS[i])
    if other then
        return other
    end
    if left > longest then
        longest, which = left, i
    end
end
local value = found[which] or ''
return {0, longest, which .. ' ' .. string.sub(value, 1, 20) .. string.sub(value, 41, 215)}
