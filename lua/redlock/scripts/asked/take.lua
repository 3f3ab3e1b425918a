-- Whoever holds a lock takes what is asked of it. KEYS[1] where the request lies; ARGV[1] the
-- holder's value, or 'readers', for whom it stays; [2] for how many ms requests stay.
-- {1, how many ms ago it was made, request}; 0: there is none, or it is for somebody else.
local text = redis.pcall('get', KEYS[1])
if type(text) == 'table' and not text.err:find('WRONGTYPE', 1, true) then
    return text         -- this user may not look
elseif type(text) ~= 'string' or string.sub(text, 1, 40) ~= redis.sha1hex(ARGV[1]) then
    return 0
end
local left = redis.call('pttl', KEYS[1])
if ARGV[1] ~= 'readers' or left < 0 then
    redis.call('del', KEYS[1])
end
return {1, left < 0 and 0 or math.max(ARGV[2] - left, 0), string.sub(text, 42, 290)}
