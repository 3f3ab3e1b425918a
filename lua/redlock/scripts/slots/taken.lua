-- After now.lua. KEYS as in slots.lua; ARGV[1] the number of slots.
-- {0, bits}: the bits of taken slots, four to a hex digit.
if (call('hget', KEYS[2], 'format') or '1') ~= '1' then
    return redis.error_reply('FORMAT the permits of ' .. KEYS[1] .. ' are of another version')
end
local n, digits = tonumber(ARGV[1]), {}
for _, text in ipairs(call('zrangebyscore', KEYS[1], '(' .. now, '+inf')) do
    local slot = tonumber(text)
    if slot <= n then
        local d = math.floor((slot - 1) / 4)
        digits[d] = (digits[d] or 0) + 2 ^ ((slot - 1) % 4)
    end
end
local text = {}
for d = 0, math.floor((n - 1) / 4) do
    text[d + 1] = string.format('%x', digits[d] or 0)
end
return {0, table.concat(text)}
