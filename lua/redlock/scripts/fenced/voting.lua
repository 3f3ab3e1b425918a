-- After counter.lua, in scripts that give a lock to somebody: only a server that has not forgotten
-- its locks may. {3, marker}: as in marker/check.lua, nothing was done.
local guarded = #ARGV[7] ~= 40       -- else it is a master_replid
local found = call('mget', KEYS[2], KEYS[2], guarded and 'redlock:{server}:marker' or KEYS[2])
local value = redis.pcall('getrange', KEYS[1], 0, 256)   -- not all of a huge one
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value
elseif type(value) == 'table' or value == '' then
    value = nil
end
if guarded and found[3] ~= ARGV[7] then
    local marker = found[3] or ''
    if marker .. '!' ~= ARGV[7] then
        return {3, marker}
    elseif not string.find(call('info', 'replication'),
        'master_replid:' .. sub(marker, 23, 38), 1, true) then
        return {3, '!' .. marker}
    end
end
