-- KEYS[3] the leader; ARGV[1] the channel of observers, [2] a term that has ended. 1.
local term = string.match(redis.call('get', KEYS[3]) or '', '^1 (%d+) ')
if term == ARGV[2] then
    redis.call('del', KEYS[3])
end
redis.pcall('publish', ARGV[1], '')
return 1
