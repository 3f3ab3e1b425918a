-- Seals a server before a planned restart; asked on all servers of a list. KEYS[1] the marker,
-- beside which are the seals of others that this server knows of. ARGV[1], what is to be done:
-- "look": {1, 0, marker} of a server that votes in its present life; else 0.
-- "note": ARGV[2] the INC, ARGV[3] the nonce of the seal: 1: noted, by another server that votes,
--   with the time (set.lua).
-- "close": ARGV[2] the marker of the one that is sealed, ARGV[3] what it is to be: 1: it is.
local marker = redis.call('get', KEYS[1]) or ''
local life = string.match(marker, '^%x+ v2 a (%x+) ')
if not life or not string.find(redis.call('info', 'replication'), 'master_replid:' .. life, 1, true)
then
    return 0
elseif ARGV[1] == 'look' then
    return {1, 0, marker}
elseif ARGV[1] == 'note' and string.sub(marker, 1, 16) ~= ARGV[2] then
    redis.call('hset', (string.gsub(KEYS[1], 'marker$', 'seals')), ARGV[2],
        ARGV[3] .. '@' .. redis.call('time')[1])
    return 1
elseif ARGV[1] == 'close' and marker == ARGV[2] then
    redis.call('set', KEYS[1], ARGV[3])
    return 1
end
return 0
