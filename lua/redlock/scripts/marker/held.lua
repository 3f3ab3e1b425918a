-- Goes around a script that keeps what is held (extend, hand-over, confirm) when the guard is on:
-- the last key is the server's marker, the last argument what its client knows of it. The script
-- does its work whatever the marker is, and sees neither of them; but one that must know which
-- memory it counts in sees the argument.
-- A yes of a server with another marker is {4 + yes, extra, marker}: the client decides whether it
-- counts, and for which list of servers.
local redlock_marker, redlock_want = redis.pcall('get', table.remove(KEYS)),
    table.remove(ARGV)
local function redlock_work()
    return WORK()
end
local redlock_said = redlock_work()
local redlock_yes, redlock_extra = redlock_said, 0
if type(redlock_said) == 'table' then
    redlock_yes, redlock_extra = redlock_said[1], tonumber(redlock_said[2]) or 0
end
if (redlock_yes == 1 or redlock_yes == 2) and redlock_marker ~= redlock_want then
    return {4 + redlock_yes, redlock_extra,
        type(redlock_marker) == 'string' and string.sub(redlock_marker, 1, 200) or ''}
end
return redlock_said
