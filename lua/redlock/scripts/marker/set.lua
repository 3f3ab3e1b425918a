-- KEYS[1] the marker; ARGV[1] what it was when it was seen last ("": there was none; what cannot
-- be shown is seen by its digest), ARGV[2] what it is to be, ARGV[3] the list of servers of who
-- sets it, or "". Sets it if it is as it was, and if this is the life of the server that it names.
-- Returns what it is then; with a "!" before it: the server is in another life. The floors of
-- fencing tokens have the name of the memory as well: whether they were lost since shows
-- fenced/run.lua.
local function seen(marker)
    if type(marker) == 'table' then
        return string.find(marker.err, 'WRONGTYPE', 1, true) and '#type'
    elseif not marker then
        return ''
    elseif #marker > 128 or string.find(marker, '[^ -~]') then
        local version = string.match(marker, '^' .. string.rep('%x', 16) .. ' v%d%d?%d? ')
        return (version or '') .. '#' .. redis.sha1hex(marker)
    end
    return marker
end

local found = redis.pcall('get', KEYS[1])
local marker = seen(found)
if marker ~= ARGV[1] then
    return marker or found       -- this user may not look
end
local info, life = redis.pcall('info', 'replication'), string.match(ARGV[2], '^%x+ v3 %a (%x+) ')
if life and type(info) == 'string' and not string.find(info, 'master_replid:' .. life, 1, true) then
    return '!' .. marker
end
redis.call('set', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then
    -- For people who look why clients disagree. pcall: not every user may write it.
    redis.pcall('set', string.gsub(KEYS[1], 'marker$', 'servers'), ARGV[3])
end
-- Once for each memory: floors that were lost since must not look as if they had not been.
local memory = string.sub(ARGV[2], 1, 16)
if memory ~= string.sub(marker, 1, 16) then
    redis.call('hset', string.gsub(KEYS[1], 'marker$', 'floor'), 'marker', memory)
end
return ARGV[2]
