-- Gives the lock back to a server that lost it, or never had it, unless it has counted past the
-- token. 1: it is ours; 0: no.
-- Where only the floor is past the token, as on a server that was taught it, nothing is counted:
-- the lock is lent (counted.lua). Who takes it next goes on from the floor.
if value or not counter or counter > token and stored then
    return 0
elseif counter > token then
    call('set', KEYS[2], lent, 'PX', ARGV[5])
elseif not count_to(token) then
    return 0
end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
