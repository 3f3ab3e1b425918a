-- Comes after shape.lua, only_lock.lua and named.lua. KEYS[1] the lock: a string, readers, or a
-- hash of Redisson, whose fields are its value here.
local kind = redis.call('type', KEYS[1]).ok
local all = kind == 'zset' and redis.call('zrange', KEYS[1], 0, -1) or {}
for i = 1, #all do
    if is_named(string.sub(all[i], 3)) then
        removed = removed + redis.call('zrem', KEYS[1], all[i])
    end
end
if kind == 'string' or kind == 'hash' then
    local value = kind == 'string' and redis.call('getrange', KEYS[1], 0, 512)
    if not value then
        local fields = redis.call('hscan', KEYS[1], 0, 'count', 100)
        table.sort(fields[2])
        value = fields[1] == '0' and table.concat(fields[2], ' ') or string.rep('?', 513)
    end
    local ours = string.find(value .. ' ', '^' .. string.rep('%x', 40) .. ' ')
    if #named < 2 and (#value > 512 or named == '' and not ours) then
        return not_a_lock(KEYS[1], kind .. ' that another library may have written')
    elseif is_named(value) then
        removed = redis.call('del', KEYS[1])
    end
end
return done('redlock:{' .. KEYS[1] .. '}:free')
