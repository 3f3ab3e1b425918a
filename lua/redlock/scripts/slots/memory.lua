-- Before fenced/counter.lua: replaces ARGV[7], "1" with the guard, by the name of the memory that
-- counts.
local name = redis.call('get', 'redlock:{server}:marker')
if ARGV[7] ~= '1' then
    name = string.match(redis.call('info', 'replication'), 'master_replid:(%w+)')
end
ARGV[7] = name or '?'
