-- After counter.lua, in scripts that give a lock to somebody: only a server that has not forgotten
-- its locks may. {3, marker}: as in marker/check.lua, nothing was done.
local guarded = #ARGV[7] ~= 40       -- else it is a master_replid
local found = call('mget', KEYS[1], KEYS[2], guarded and 'redlock:{server}:marker' or KEYS[1])
local value = found[1]
if guarded and found[3] ~= ARGV[7] then
    local marker = found[3] or ''
    if marker .. '!' ~= ARGV[7] then
        return {3, marker}
    elseif not string.find(call('info', 'replication'),
        'master_replid:' .. sub(marker, 23, 38), 1, true) then
        return {3, '!' .. marker}
    end
end
