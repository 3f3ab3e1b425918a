-- Gives the lock back to a server that lost it, unless it has counted past the token.
-- 1: it is ours; 0: no.
if value or not counter or counter > token or not count_to(token) then
    return 0
end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
