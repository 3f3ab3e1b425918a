-- KEYS as in look.lua. ARGV[1] the markers of all servers that are asked, as they were seen, each
-- between two line ends; [2] the view that this one's is to name, and [3] its state; [4] the record
-- of that view; [5] the ballot that must be the one promised last; "": whichever it is.
-- 1: done; 2: it was so already; 0: another ballot, life or marker.
local marker = redis.pcall('get', KEYS[1])
marker = type(marker) == 'string' and #marker <= 128 and marker or ''
local inc, life, more, id = string.match(marker, '^(%x+) v2 %a (%x+) (%d+ %d+) %S+ (%d+)')
local seen = inc and string.match(ARGV[1], '\n(' .. inc .. ' [^\n]*)\n')
local ballot = inc and string.sub(inc, 1, 8) .. ARGV[5]
if not seen or ARGV[5] ~= '' and redis.call('get', KEYS[3]) ~= ballot
    or not string.find(redis.call('info', 'replication'), 'master_replid:' .. life, 1, true) then
    return 0
end
local want = table.concat({inc, 'v2', ARGV[3], life, more, ARGV[2], id}, ' ')
if marker ~= seen and marker ~= want then
    return 0
end
redis.call('set', KEYS[1], want)
redis.call('set', (string.gsub(KEYS[1], 'marker$', 'members')), ARGV[4])
return marker == want and 2 or 1
