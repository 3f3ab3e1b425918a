-- After voting.lua: takes a hold over with its token.
-- {1, n}; {2, n}: done before (a request sent twice); n: the token, or 1: it is not counted here,
-- but the lock was lent (heal.lua). 0: gone, or neither; {-1, 0, who}: another holder.
-- Counts nothing: a counter names the hold by digits with which the new value begins, too. But it
-- keeps the counter for as long as an acquire or an extension does.
local text = ARGV[3] .. mine
local n = found[2] == run .. text and tonumber(ARGV[3]) or found[2] == run .. '=' .. text and 1
if value and value ~= replaced and value ~= ARGV[1] then
    return {-1, 0, sub(value, 1, 20) .. sub(value, 41, 215)}
elseif not value or not n then
    return 0
elseif value == ARGV[1] then
    return {2, n}
end
call('pexpire', KEYS[2], ARGV[5])
call('set', KEYS[1], ARGV[1], 'PX', math.max(ARGV[2], call('pttl', KEYS[1])))
return {1, n}
