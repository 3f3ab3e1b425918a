-- {1, ms, digest of a value, and its card}: some key is held, for so long at least, until all are
-- free; 0: none.
local found, longest, who = redis.call('mget', unpack(KEYS)), -2, ''
for i = 1, #KEYS do
    local left = redis.call('pttl', KEYS[i])
    left = left == -1 and 2 ^ 31 or left
    if left > longest then
        local value = found[i] or 'not a string'
        longest, who = left, redis.sha1hex(value) .. string.sub(value, 41, 215)
    end
end
return longest > -2 and {1, longest, who} or 0
