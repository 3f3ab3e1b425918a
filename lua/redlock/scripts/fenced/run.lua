-- What the scripts about floors begin with. KEYS[1] the floors of this server, KEYS[2] the
-- marker; ARGV[1] a bucket, ARGV[2] max_lease in ms, "" without the guard, ARGV[3] what no
-- counter can have come to.
local info = redis.pcall('info', 'server')
local run_id = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '--------'
local run = string.sub(run_id, 1, 8)
local found = redis.call('hmget', KEYS[1], ARGV[1], 'marker')
local text = found[1] or ''
local tag = string.sub(text, 1, 8)
local floor = text == '' and 0 or tonumber(string.match(text, '^%d+$', 9)) or math.huge
local wild = floor + 1 >= tonumber(ARGV[3])

-- The marker is written together with a field of the floors: where that is gone, the floors
-- have been lost since, and the quarantine begins anew.
local admitted = true
if ARGV[2] ~= '' then
    local marker = redis.call('get', KEYS[2])
    if run_id == '--------' and marker and string.sub(marker, 1, 8) ~= run then
        return info          -- others may ask which run it is, this user may not
    end
    admitted = marker == run_id .. ' ' .. ARGV[2]
    if admitted and found[2] ~= marker then
        redis.call('del', KEYS[2])
        admitted = false
    end
end
