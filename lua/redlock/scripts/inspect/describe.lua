-- After now.lua. Describes a key that is a lock, in one text: 'kind left waiting queue token length
-- length:', then in these lengths the name after the prefix, and the holder. kind: l: a lock, f: a
-- fenced one, r: readers, p: permits, c: a latch that is not open, x: perhaps another library's
-- lock. left: in ms. token: the number of readers or permits; of a latch how many are missing.
-- Holder: 20 digits of a digest of the value, and its card; of readers and permits 8 digits for
-- each of the last 64; of a latch nothing. ARGV[1] the prefix, [2] '1': include x.
local prefix, foreign = ARGV[1], ARGV[2] == '1'
local OWN, KINDS, MOST, LONG = 'redlock:{', { ['}:slots'] = 'p', ['}:latch'] = 'c' }, 64, 1024
local VALUE = '^' .. string.rep('%x', 40) .. ' '
local sub, FOREVER = string.sub, 1e15        -- more is no time, and no count

-- The key of the lock, and 'p' or 'c' if it is for permits or a latch; nil: not of this prefix.
local function named(key)
    local many = KINDS[sub(key, -7)]
    if sub(key, 1, #OWN) ~= OWN then
        return sub(key, 1, #prefix) == prefix and #key > #prefix and key or nil
    elseif many and sub(key, #OWN + 1, #OWN + #prefix) == prefix then
        return sub(key, #OWN + 1, -8), many
    end
end

local function row(kind, key, left, token, who)
    local of = kind == 'p' and ':slots' or kind == 'c' and ':latch' or ''
    local heard = redis.pcall('pubsub', 'numsub', OWN .. key .. of .. '}:free')
    local queue = of == '' and redis.pcall('zcard', OWN .. key .. '}:queue')
    return table.concat({ kind, left, not heard.err and tonumber(heard[2]) or 0,
        type(queue) == 'number' and queue or 0, token, #key - #prefix, #who }, ' ') .. ':'
        .. sub(key, #prefix + 1) .. who
end

-- The row of a sorted set whose scores are the ends of leases.
local function of_many(kind, key, set)
    local count = call('zcount', set, '(' .. now, '+inf')
    if count == 0 then
        return nil
    end
    local all, who = call('zrange', set, -math.min(count, MOST), -1, 'withscores'), {}
    for i = 1, #all, 2 do
        local value = all[i]
        if kind == 'p' then
            local of = redis.pcall('hget', OWN .. key .. '}:who', value)
            value = value .. ' ' .. (type(of) == 'string' and of or '')
        end
        who[#who + 1] = sub(redis.sha1hex(value), 1, 8)
    end
    local left = all[#all] - now
    return left < FOREVER and row(kind, key, left, count, table.concat(who)) or nil
end

local function of_one(key, left)
    local value = call('getrange', key, 0, 512)
    if not string.find(value .. ' ', VALUE) then
        return foreign and #value <= 512
            and row('x', key, left, 0, sub(redis.sha1hex(value), 1, 20)) or nil
    end
    local counter = redis.pcall('get', OWN .. key .. '}:fence')
    local token, whose = string.match(type(counter) == 'string' and sub(counter, 9) or '',
        '^=?(%d+) (.*)$')
    token = whose == sub(value, 1, 8) and token
    return row(token and 'f' or 'l', key, left, token or 0,
        sub(redis.sha1hex(value), 1, 20) .. sub(value, 41, 256))
end

local function of_latch(key, from, left)
    local arrived = redis.pcall('zcard', OWN .. key .. '}:arrived')
    local missing = (tonumber(call('hget', from, 'count')) or 0) - (tonumber(arrived) or 0)
    return missing > 0 and missing < FOREVER and row('c', key, left, missing, '') or nil
end

-- nil: not a lock.
local function describe(key, many, from)
    local kind, left = call('type', from).ok, call('pttl', from)
    if left <= 0 then
        return nil
    elseif many == 'c' then
        return kind == 'hash' and of_latch(key, from, left) or nil
    elseif kind == 'zset' then
        local first = many or call('zrange', from, 0, 0)[1]
        return (many or string.find(first or '', '^1 %x+')) and of_many(many or 'r', key, from)
            or nil
    elseif many then
        return nil
    elseif kind == 'string' then
        return of_one(key, left)
    end
    return foreign and kind == 'hash' and row('x', key, left, 0, string.rep('0', 20)) or nil
end
