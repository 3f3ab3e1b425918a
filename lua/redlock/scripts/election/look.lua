-- KEYS as in announce.lua. {1, ms, 'term who'}: there is a leader, for `ms`; who: '' if unknown.
-- 0: no leader.
local found = redis.call('mget', KEYS[1], KEYS[2], KEYS[3])
if string.sub(found[3] or '1 ', 1, 2) ~= '1 ' then
    return redis.error_reply('FORMAT the leader of ' .. KEYS[1] .. ' is of another version')
end
-- A counter of the lock's holder ends with the beginning of its value.
local term, whose = string.match(string.sub(found[2] or '', 9), '^(%d+) (.*)$')
if not found[1] or whose ~= string.sub(found[1], 1, 8) then
    return 0
end
local of, who = string.match(found[3] or '', '^1 (%d+) (.*)$')
return {1, redis.call('pttl', KEYS[1]), term .. ' ' .. (of == term and who or '')}
