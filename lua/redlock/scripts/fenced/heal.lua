-- Writes the lock again on a server that lost it, or never had it, unless it has counted past the
-- token. 1: done; 0: not, also where readers hold it, whose key has no value.
-- Where only the floor is past the token, as on a server that was taught it, nothing is counted:
-- the lock is lent (counted.lua). It is lent too on a server that forgot its floor and was not
-- taught yet; the next acquire finds that the server has to be taught.
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
