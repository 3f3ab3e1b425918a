-- Encloses a script whose answer counts only from a server that may vote (SCRIPT() stands for it).
-- It runs in any case. `want` is the marker that the caller knows ("": any), and may end with a "!"
-- as in check.lua. Where it is the server's, the script's answer goes out as it is, else as
-- {-2^31, marker, answer} (RL_SHOWN): "!" and the marker: another life.
local shown = want ~= '' and redis.pcall('get', 'redlock:{server}:marker')
if shown == want then
    shown = false
elseif shown == false and want ~= '' or type(shown) == 'table'
    and string.find(shown.err, 'WRONGTYPE', 1, true) then
    shown = ''
elseif type(shown) == 'string' and shown .. '!' == want then
    shown = not string.find(redis.call('info', 'replication'),
        'master_replid:' .. string.sub(shown, 23, 38), 1, true) and '!' .. shown
end
local function script()
SCRIPT()
end
local answer = script()
if not shown or type(answer) == 'table' and answer.err then
    return answer
end
return type(shown) == 'table' and shown or {-2147483648, shown, answer}
