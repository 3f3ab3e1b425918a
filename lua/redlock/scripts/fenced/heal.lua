-- Gives the lock back to a server that lost it, or never had it, unless it has counted past the
-- token. 1: it is ours; 0: no; so too where readers have it, whose key has no value.
-- Where only the floor is past the token, as on a server that was taught it, nothing is counted:
-- the lock is lent (counted.lua). So it is on a server that has forgotten and was not taught yet;
-- who takes it next finds that it has to be.
local counter = counter or token + 1
if value or run == '?' or counter > token and stored or call('pttl', KEYS[1]) ~= -2 then
    return 0
elseif counter > token then
    call('set', KEYS[2], lent, 'PX', ARGV[5])
elseif not count_to(token) then
    return 0
end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
