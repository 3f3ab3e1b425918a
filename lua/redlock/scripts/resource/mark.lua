-- What a script begins with that works on a resource under a fencing token.
-- KEYS[1] the mark, KEYS[2..] the data. ARGV[1] the token, [2] how long the mark stays
-- without use in ms (0: for ever), [3..] for the rest of the script, which returns {1, reply}.
--
-- {0, highest}: refused, and nothing was touched. The mark is raised before the data is
-- written: a command that fails must not leave a write that the mark knows nothing of.
local function number(digits)
    return string.find(digits, '^%d+$') and #digits < 15 and tonumber(digits)
end

local token = number(ARGV[1])
if not token or token == 0 then
    return redis.error_reply('ERR the token is not a whole number from 1 to 10^14 - 1')
end
local highest = number(redis.call('get', KEYS[1]) or '0')
if not highest then
    return redis.error_reply('ERR the mark is not a token: ' .. KEYS[1])
end
if token < highest then
    return {0, highest}
end
if token > highest then
    redis.call('set', KEYS[1], token)
end
if ARGV[2] ~= '0' then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
