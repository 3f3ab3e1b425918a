-- Goes before an acquire script when the guard is on: the last key is the server's marker,
-- which must be the last argument ("": whatever it is); the script sees neither of them.
-- {3, marker}: it is another one, and nothing was done.
local want, marker = table.remove(ARGV), redis.call('get', table.remove(KEYS))
if want ~= '' and marker ~= want then return {3, marker or ''} end
