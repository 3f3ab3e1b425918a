-- Before fenced/counter.lua, which wants in ARGV[7] what names the memory that is counted in.
-- ARGV[7] "1" with the guard.
local name = redis.call('get', 'redlock:{server}:marker')
if ARGV[7] ~= '1' then
    name = string.match(redis.call('info', 'replication'), 'master_replid:(%w+)')
end
ARGV[7] = name or '?'
