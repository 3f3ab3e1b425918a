-- Sets the marker if it is as last seen, and if the server is in the life that the new one names.
-- KEYS[1] the marker; ARGV[1] the marker as last seen ("": none; an unprintable one as its digest),
-- [2] the new marker up to CLUSTER, [3] the client's list of servers, or "", [4] for how many ms of
-- its clock the client has seen ARGV[1] ("": the quarantine begins, or ends), [5] how long a
-- quarantine is, [6] a base for the floors of fencing tokens, or "".
-- Returns the marker as it is then; with a "!" before it: the server is in another life.
-- Without the guard ARGV[2] is the server's master_replid, and only the base is set.
local function seen(marker)
    if type(marker) == 'table' then
        return string.find(marker.err, 'WRONGTYPE', 1, true) and '#type'
    elseif not marker then
        return ''
    elseif #marker > 136 or string.find(marker, '[^ -~]') then
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
local text, guarded = ARGV[2], string.find(ARGV[2], ' ', 1, true)
local info, life = redis.pcall('info', 'replication'), string.match(text, '^%x+', guarded and 23)
if life and type(info) == 'string' and not string.find(info, 'master_replid:' .. life, 1, true) then
    return '!' .. marker
end

-- What both clocks have seen counts: neither a client's nor the server's ends a quarantine alone.
-- A new text starts everybody's count anew. So a client that has seen the present one for less than
-- half of its age leaves it to those that have seen it for longer, and write every 2 to 3 s.
local memory, state = string.sub(text, 1, 16), string.sub(text, 21, 21)
local same = string.sub(marker, 1, 16) == memory
if guarded and state ~= 'a' then
    local t = redis.call('time')
    local now, observed = t[1] * 1000 + math.floor(t[2] / 1000), 0
    local before, at = string.match(marker, ' (%d+) (%d+)$')
    if same and before and ARGV[4] ~= '' then
        local own, age = tonumber(ARGV[4]), now - at
        if state == string.sub(marker, 21, 21) and 2 * own < age and age < 5000 then
            return marker
        end
        observed = math.min(tonumber(ARGV[5]), before + math.max(0, math.min(own, age)))
    end
    text = string.format('%s %.0f %.0f', text, observed, now)
end
if guarded then
    redis.call('set', KEYS[1], text)
end
if ARGV[3] ~= '' then
    -- For people who ask why clients disagree. pcall: the user may lack permission.
    redis.pcall('set', string.gsub(KEYS[1], 'marker$', 'servers'), ARGV[3])
end

-- The floors: nothing about them keeps the marker from being set. They get the name of the memory,
-- so that their loss shows; not again while the memory may have counted, which would hide it.
local floors, run = string.gsub(KEYS[1], 'marker$', 'floor'), string.sub(memory, 1, 8)
local kept = redis.pcall('hmget', floors, 'marker', 'base')
if kept.err and string.find(kept.err, 'WRONGTYPE', 1, true) then
    redis.pcall('del', floors)
    kept = {}
end
local was = string.sub(marker, 21, 21)
local fresh = not same or was == 'n' or was == 'l'
if guarded and fresh and kept[1] ~= memory then
    redis.pcall('hset', floors, 'marker', memory)
end
if ARGV[6] ~= '' and (not guarded or fresh or kept[1] == memory)
    and string.sub(kept[2] or '', 1, 8) ~= run then
    local taught = redis.pcall('hset', floors, 'base', run .. ARGV[6], 'most', run .. ARGV[6])
    if type(taught) == 'table' and not guarded then
        return taught
    end
end
return guarded and text or marker
