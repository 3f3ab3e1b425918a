-- Goes before an acquire script when the guard is on: the last argument, which the script does not
-- see, must be the server's marker ("": whatever it is). With a "!" behind it the server must be in
-- the life that the marker names, too. The marker is none of the KEYS, as Redis 7 asks for the
-- right to write each of those.
-- {3, marker}: it is another one, and nothing was done; {3, "!" and the marker}: another life.
local want, marker = table.remove(ARGV), redis.pcall('get', 'redlock:{server}:marker')
local look = string.byte(want, -1) == 33
if look then want = string.sub(want, 1, -2) end
if want ~= '' and marker ~= want then
    if type(marker) == 'table' and not string.find(marker.err, 'WRONGTYPE', 1, true) then
        return marker        -- this user may not look
    end
    return {3, type(marker) == 'string' and marker or ''}
end
if look and not string.find(redis.call('info', 'replication'),
    'master_replid:' .. string.sub(want, 23, 38), 1, true) then return {3, '!' .. marker} end
