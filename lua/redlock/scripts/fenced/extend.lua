-- Never shortens. 1: ours until then at least; 0: gone, or its counter is, and the floor is
-- past it; -1: somebody else's, or a newer token may have been issued; -2: no floor.
if not value then
    return 0
end
local borrowed = value == ARGV[1] and found[2] == lent
if value ~= ARGV[1] or (counter and counter > token and not borrowed) then
    return value == ARGV[1] and not stored and 0 or -1
end
if borrowed then
    call('pexpire', KEYS[2], ARGV[5])
elseif not counter or not count_to(token) then
    return -2
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
