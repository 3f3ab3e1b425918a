-- KEYS[1] a fenced lock, [2] its counter, [3] the leader: '1 term who'. ARGV[1] the lock's value,
-- [2] the term (its token), [3] who, [4] how long KEYS[3] stays, in ms, [5] the channel of
-- observers. 1; 0: not the leader here.
local found = redis.call('mget', KEYS[1], KEYS[2], KEYS[3])
if string.sub(found[3] or '1 ', 1, 2) ~= '1 ' then
    return redis.error_reply('FORMAT the leader of ' .. KEYS[1] .. ' is of another version')
end
local counted = string.sub(found[2] or '', 9) == ARGV[2] .. ' ' .. string.sub(ARGV[1], 1, 8)
if found[1] ~= ARGV[1] or not counted then
    return 0
end
redis.call('set', KEYS[3], '1 ' .. ARGV[2] .. ' ' .. ARGV[3], 'PX', ARGV[4])
redis.pcall('publish', ARGV[5], '')
return 1
