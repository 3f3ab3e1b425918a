-- {1, slot}; {2, slot}: this value had it already; {0, ms}: no slot is free for `ms`.
if mine and (agreed == 0 or mine == agreed) then
    return {2, mine}
elseif mine then
    free(mine)               -- a majority gave another one
end
local n, from = tonumber(ARGV[4]), tonumber(ARGV[5])
for i = 0, agreed > 0 and 0 or n - 1 do
    local slot = agreed > 0 and agreed or (from + i) % n + 1
    if not call('zscore', KEYS[1], slot) then
        put(slot, now + ARGV[2])
        return {1, slot}
    end
end
return {0, call('zrange', KEYS[1], 0, 0, 'withscores')[2] - now}
