-- Precedes an acquire script when the guard is on. The last argument, which is removed for the
-- script, must be the server's marker ("": any). With a "!" appended, the server must also be in
-- the life that the marker names. The marker is not in KEYS, as Redis 7 then demands permission to
-- write it.
-- {3, marker}: another marker, nothing was done; {3, "!" and the marker}: another life.
local want, marker = table.remove(ARGV), redis.pcall('get', 'redlock:{server}:marker')
local look = string.byte(want, -1) == 33
if look then want = string.sub(want, 1, -2) end
if want ~= '' and marker ~= want then
    if type(marker) == 'table' and not string.find(marker.err, 'WRONGTYPE', 1, true) then
        return marker        -- the user may not read it
    end
    return {3, type(marker) == 'string' and marker or ''}
end
if look and not string.find(redis.call('info', 'replication'),
    'master_replid:' .. string.sub(want, 23, 38), 1, true) then return {3, '!' .. marker} end
