-- Never shortens. 1: held until then at least; 0: gone, or its counter is gone and the floor is
-- past the token; {-1, 0, who}: another holder, as in lock/acquire.lua; -1: a newer token may have
-- been issued; -2: no floor.
if not value then
    return 0
end
if value ~= ARGV[1] then
    return {-1, 0, sub(value, 1, 20) .. sub(value, 41, 215)}
end
local borrowed = found[2] == lent
if counter and counter > token and not borrowed then
    return stored and -1 or 0
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
