-- After voting.lua: takes a hold over with its token.
-- {1, token}; {2, token}: done before (a request sent twice); 0: gone, or this server has not
-- counted that token for it; {-1, 0, who}: another holder.
-- Counts nothing: a counter names the hold by digits with which the new value begins, too. But it
-- keeps the counter for as long as an acquire or an extension does.
local token = tonumber(ARGV[3])
if value and value ~= replaced and value ~= ARGV[1] then
    return {-1, 0, sub(value, 1, 20) .. sub(value, 41, 215)}
elseif not value or found[2] ~= run .. ARGV[3] .. mine and found[2] ~= run .. '=' .. ARGV[3] .. mine
then
    return 0
elseif value == ARGV[1] then
    return {2, token}
end
call('pexpire', KEYS[2], ARGV[5])
call('set', KEYS[1], ARGV[1], 'PX', math.max(ARGV[2], call('pttl', KEYS[1])))
return {1, token}
