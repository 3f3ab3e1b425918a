-- KEYS[1] the marker; ARGV[1] the marker as last seen ("": none; an unprintable one as its digest),
-- ARGV[2] the new marker, ARGV[3] the client's list of servers, or "". Sets the marker if it is as
-- last seen, and if the server is in the life that the new one names. Returns the marker as it is
-- then; with a "!" before it: the server is in another life. The floors of fencing tokens get the
-- name of the memory too, so that fenced/run.lua can tell if they were lost since.
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
    return marker or found       -- the user may not read it
end
local info, life = redis.pcall('info', 'replication'), string.match(ARGV[2], '^%x+ v3 %a (%x+) ')
if life and type(info) == 'string' and not string.find(info, 'master_replid:' .. life, 1, true) then
    return '!' .. marker
end
redis.call('set', KEYS[1], ARGV[2])
if ARGV[3] ~= '' then
    -- For people who ask why clients disagree. pcall: the user may lack permission.
    redis.pcall('set', string.gsub(KEYS[1], 'marker$', 'servers'), ARGV[3])
end
-- Only once for each memory: later it would hide that floors were lost since.
local memory = string.sub(ARGV[2], 1, 16)
if memory ~= string.sub(marker, 1, 16) then
    redis.call('hset', string.gsub(KEYS[1], 'marker$', 'floor'), 'marker', memory)
end
return ARGV[2]
