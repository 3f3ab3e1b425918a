-- After now.lua. KEYS as in readers.lua. A writer becomes a reader: ARGV[1] the reader's value,
-- [2] its lease in ms, [3] the writer's value. 1; 2: done before; 0: gone; -1: another holder.
-- Only replaces, never acquires a free lock. Opens the door, until a writer is refused.
local value, me = redis.pcall('get', KEYS[1]), '1 ' .. ARGV[1]
if value ~= ARGV[3] then
    local again = type(value) == 'table' and redis.pcall('zscore', KEYS[1], me)
    return type(again) == 'string' and 2 or value and -1 or 0
end
call('del', KEYS[1], KEYS[2])
call('zadd', KEYS[1], now + ARGV[2], me)
call('pexpire', KEYS[1], ARGV[2])
redis.pcall('publish', 'redlock:{' .. KEYS[1] .. '}:free', '')
return 1
