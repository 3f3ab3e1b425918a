-- KEYS[1] a fenced lock, [2] its counter. {1, ms, 'term card'}: there is a leader, for `ms`; the
-- card is of its value. 0: no leader.
local found = redis.call('mget', KEYS[1], KEYS[2])
-- A counter of the lock's holder ends with the beginning of its value, also where it is lent
-- (fenced/heal.lua).
local term, whose = string.match(string.sub(found[2] or '', 9), '^=?(%d+) (.*)$')
if not found[1] or whose ~= string.sub(found[1], 1, 8) then
    return 0
end
return {1, redis.call('pttl', KEYS[1]), term .. string.sub(found[1], 41, 215)}
