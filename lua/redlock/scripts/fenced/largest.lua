-- KEYS[1] the floors of this server. {1, the largest floor of this memory or 0, how many floors
-- it has}.
local name = redis.call('get', 'redlock:{server}:marker')
    or string.match(redis.call('info', 'replication'), 'master_replid:(%w+)')
local run, largest, known = string.sub(name, 1, 8), 0, 0
local buckets = {}
for i = 0, 1023 do
    buckets[i + 1] = i
end
for _, text in ipairs(redis.call('hmget', KEYS[1], unpack(buckets))) do
    if text and text ~= '' and string.sub(text, 1, 8) == run then
        known = known + 1
        largest = math.max(largest, tonumber(string.match(text, '^%d+$', 9)) or 1e15)
    end
end
return {1, math.min(largest, 1e15), tostring(known)}
