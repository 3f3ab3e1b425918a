-- After now.lua. KEYS as in slots.lua; ARGV[1] the number of slots.
-- {taken, ms until one is free, bits}: the bits of taken slots, four to a hex digit.
if (call('hget', KEYS[2], 'format') or '1') ~= '1' then
    return redis.error_reply('FORMAT the permits of ' .. KEYS[1] .. ' are of another version')
end
local n, count, first, digits = tonumber(ARGV[1]), 0, 0, {}
local all = call('zrangebyscore', KEYS[1], '(' .. now, '+inf', 'withscores')
for i = 1, #all, 2 do
    local slot = tonumber(all[i])
    if slot <= n then
        local d = math.floor((slot - 1) / 4)
        digits[d] = (digits[d] or 0) + 2 ^ ((slot - 1) % 4)
        count, first = count + 1, first == 0 and all[i + 1] - now or first
    end
end
local text = {}
for d = 0, math.floor((n - 1) / 4) do
    text[d + 1] = string.format('%x', digits[d] or 0)
end
return {count, first, table.concat(text)}
