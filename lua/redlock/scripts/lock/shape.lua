-- Declares no_lock(key): nil if the key may hold a lock, or nothing; else the error that says what
-- it holds, made by not_a_lock(key, text). Locks have an end. They are strings, the readers of a
-- read-write lock (rw/readers.lua), or hashes of Redisson.
local NOUNS = { zset = 'sorted set' }
local function not_a_lock(key, what)
    return redis.error_reply('NOTALOCK the key ' .. string.gsub(string.sub(key, 1, 128), '%c', '?')
        .. ' holds a ' .. what .. ', which is no lock of redlock: use a prefix')
end
local function no_lock(key)
    local kind, like = redis.call('type', key).ok, nil
    if kind == 'none' then
        return nil
    elseif kind == 'zset' then
        like = string.find(redis.call('zrange', key, 0, 0)[1], '^%d+ %x')
    elseif kind == 'hash' then
        local found = redis.pcall('hscan', key, 0, 'count', 1)
        local field = found.err and '' or found[2][1]
        like = field == 'mode' or string.find(field, '^%x[%x%-]+:%d+')
    else
        like = kind == 'string'
    end
    if like and redis.call('pttl', key) ~= -1 then
        return nil
    end
    return not_a_lock(key, (NOUNS[kind] or kind) .. (like and ' without an end' or ''))
end
