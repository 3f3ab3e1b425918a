-- KEYS[1] the marker, KEYS[2] the floors, KEYS[3] the ballot that was promised last; without these
-- two, which not everybody may see, only the list is told. ARGV[1] where a piece of its record
-- begins, from 0; ARGV[2] a ballot to be promised: nothing of a smaller one is taken from then on
-- (accept.lua); "0": none.
-- {length of the record, the ballot promised last in this memory, a line, a piece}: the line has
-- the marker, whether it is of this life of the server, and how many floors are of this memory.
local marker = redis.pcall('get', KEYS[1])
marker = type(marker) == 'string' and #marker <= 128 and marker or ''
local run, life = string.sub(marker, 1, 8), string.match(marker, '^%x+ v2 %a (%x+) ')
local alive = life and string.find(redis.call('info', 'replication'), 'master_replid:' .. life, 1,
    true) and 1 or 0

local text = KEYS[3] and redis.call('get', KEYS[3]) or ''
local promised = string.sub(text, 1, 8) == run and tonumber(string.sub(text, 9)) or 0
if KEYS[3] and alive == 1 and tonumber(ARGV[2]) > promised then
    promised = tonumber(ARGV[2])
    redis.call('set', KEYS[3], run .. ARGV[2])
end

local seeded, buckets = 0, {}
for i = 0, KEYS[2] and 1023 or -1 do
    buckets[i + 1] = i
end
for _, floor in ipairs(buckets[1] and redis.call('hmget', KEYS[2], unpack(buckets)) or {}) do
    seeded = seeded + (floor and floor ~= '' and string.sub(floor, 1, 8) == run and 1 or 0)
end

-- No key of the script's: who may read it may not write it.
local record = redis.pcall('get', (string.gsub(KEYS[1], 'marker$', 'members')))
record = type(record) == 'string' and record or ''
return {#record, promised, table.concat({marker, alive .. ' ' .. seeded,
    string.sub(record, ARGV[1] + 1, ARGV[1] + 100)}, '\n')}
