-- ARGV[2] 0: not to be announced. 1: deleted, and announced to those who wait; {1, n}: to n
-- of them; 0: it was gone; -1: somebody else's. The counter catches up first.
if value == ARGV[1] then
    if counter and token > counter then
        count_to(token)
    end
    redis.call('del', KEYS[1])
    if ARGV[2] == '0' then
        return 1
    end
    -- pcall: a user without channels can release as well.
    local n = redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
    return type(n) == 'number' and n > 0 and {1, n} or 1
end
return value and -1 or 0
