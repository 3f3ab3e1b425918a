-- Begins a script that works on a resource under a fencing token.
-- KEYS[1] the mark, KEYS[2..] the data. ARGV[1] the token, [2] how long an unused mark stays, in
-- ms (0: for ever), [3..] for the rest of the script, which returns {1, reply}.
--
-- {0, highest}: refused; nothing was changed. Raises the mark before it writes the data, so that
-- a command that fails half-way never leaves a write without its mark.
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
