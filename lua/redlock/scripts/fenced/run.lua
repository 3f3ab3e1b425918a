-- Begins the scripts about floors. KEYS[1] the floors of this server; ARGV[1] a bucket, ARGV[2]
-- "1" with the guard, else "", ARGV[3] a number that no counter can have reached.
local info = redis.pcall('info', 'replication')
if type(info) == 'table' then
    return info              -- a user that cannot learn the server's life must not count
end
local life = string.match(info, 'master_replid:(%w+)')
local run = string.sub(life, 1, 8)

-- A field of the floors is written with the marker. If the field is gone, the floors have been
-- lost since, and the quarantine begins anew.
local admitted = true
local found = redis.call('hmget', KEYS[1], ARGV[1], 'marker')
if ARGV[2] ~= '' then
    local marker = redis.call('get', 'redlock:{server}:marker') or ''
    local inc, state, of = string.match(marker, '^(%x+) v3 (%a) (%x+) ')
    admitted = state == 'a' and of == string.sub(life, 1, 16)
    if admitted and found[2] ~= inc then
        redis.call('del', 'redlock:{server}:marker')
        admitted = false
    end
    run = inc and string.sub(inc, 1, 8)
end
local text = found[1] or ''
local tag = string.sub(text, 1, 8)
local floor = text == '' and 0 or tonumber(string.match(text, '^%d+$', 9)) or math.huge
local wild = floor + 1 >= tonumber(ARGV[3])
