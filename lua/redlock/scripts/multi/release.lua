-- One DEL for all, and messages only to channels with subscribers. 1; {1, n}: n waiters were woken.
-- After start_of.lua; lock/shape.lua and not_ours.lua follow.
local found, ours = {}, {}
for i = 1, #KEYS do
    found[i] = start_of(KEYS[i])
    if found[i] == ARGV[1] then
        ours[#ours + 1] = KEYS[i]
    end
end
if #ours > 0 then
    redis.call('del', unpack(ours))
    if ARGV[2] == '0' then
        return 1
    end
    for i = 1, #ours do
        ours[i] = 'redlock:{' .. ours[i] .. '}:free'
    end
    local told, n = redis.pcall('pubsub', 'numsub', unpack(ours)), 0
    for i = 1, #told, 2 do
        if told[i + 1] > 0 then
            redis.pcall('publish', told[i], '')
            n = n + told[i + 1]
        end
    end
    return n > 0 and {1, n} or 1
end
