-- Somebody waits for KEYS, says so beside the values of what he holds, and looks for a cycle: those
-- who have KEYS wait for others, and one of these waits for him. ARGV[1] the prefix, [2] who waits,
-- [3] how often he has said so, [4] 'ends' or 'tells', [5] 'read': only a writer is waited for,
-- [6] for how many ms what is said lies there, [7] 'full': all of the cycle is told; [8] on: the
-- values. {1, how long the cycle is, 'digest counts'} or {1, length, 'digest rows'}; 0: there is
-- none. The digest is that of the whole cycle but for its counts, which tell how often each of the
-- others has said that it waits. A row: 'length length who ends:' and of those lengths a key and
-- the card of who has it; who waits as well; the last one is whose look this is.
-- A post: 'who count ends kind length:key...', beside the digest of each value.
local MOST, DEEP, LONG, CARD = 16, 8, 4096, 175
local prefix, sub, match = ARGV[1], string.sub, string.match

local function post_of(digest)
    return 'redlock:{' .. prefix .. digest .. '}:waits'
end

local mine, text = {}, table.concat({ ARGV[2], ARGV[3], ARGV[4], ARGV[5], '' }, ' ')
for i = 1, #KEYS do
    text = text .. #KEYS[i] .. ':' .. KEYS[i]
end
for i = 8, #ARGV do
    local digest = redis.sha1hex(ARGV[i])
    mine[digest] = true
    redis.call('set', post_of(digest), text, 'PX', ARGV[6])
end

-- Others may have written what lies there, and a user may not look at all keys.
local function read(digest)
    local said = redis.pcall('get', post_of(digest))
    said = type(said) == 'string' and #said <= LONG and said or ''
    local who, count, ends, kind, at = match(said, '^(%x+) (%d+) (%l+) (%l+) ()')
    local post = { who = who, count = count, ends = ends, reads = kind == 'read', keys = {} }
    if not who or #who ~= 16 or #count > 9 or (ends ~= 'ends' and ends ~= 'tells') then
        return nil
    end
    while at <= #said and #post.keys < MOST do
        local len, from = match(said, '^(%d+):()', at)
        if not from or #len > 4 or from + len - 1 > #said then
            return nil
        end
        local key = sub(said, from, from + len - 1)
        if sub(key, 1, #prefix) ~= prefix then
            return nil
        end
        post.keys[#post.keys + 1], at = key, from + len
    end
    return post
end

-- Who has a key, in an order of their own: readers stand there by when they end.
local function holders(key, reads)
    local value = redis.pcall('get', key)
    if type(value) == 'string' then
        return { { key = key, digest = redis.sha1hex(value), card = sub(value, 41, 40 + CARD) } }
    end
    local list, all = {}, value and not reads and redis.pcall('zrange', key, 0, MOST - 1) or {}
    for _, member in ipairs(all) do
        local of = match(member, '^1 (.*)$')
        list[#list + 1] = of and { key = key, digest = redis.sha1hex(of),
            card = sub(of, 41, 40 + CARD) } or nil
    end
    table.sort(list, function(a, b) return a.digest < b.digest end)
    return list
end

local path, seen, looks = {}, {}, 0

-- Whether one of those who have these keys waits for whoever looks, as path tells then.
local function find(keys, reads)
    for _, key in ipairs(keys) do
        looks = looks + 1
        for _, one in ipairs(looks <= 64 and holders(key, reads) or {}) do
            path[#path + 1] = one
            if mine[one.digest] then
                return true
            end
            one.post = not seen[one.digest] and #path < DEEP and read(one.digest) or nil
            seen[one.digest] = true
            if one.post and find(one.post.keys, one.post.reads) then
                return true
            end
            path[#path] = nil
        end
    end
    return false
end

if not find(KEYS, ARGV[5] == 'read') then
    return 0
end
local parts, counts, rows = {}, {}, {}
for i, one in ipairs(path) do
    local who = one.post and one.post.who or ARGV[2]
    local ends = one.post and one.post.ends or ARGV[4]
    counts[i] = one.post and one.post.count
    parts[i] = table.concat({ #one.key, ':', one.key, one.digest, who, ends }, ' ')
    rows[i] = table.concat({ #one.key, #one.card, who, ends }, ' ') .. ':' .. one.key .. one.card
end
return {1, #path, redis.sha1hex(table.concat(parts)) .. ' '
    .. (ARGV[7] == 'full' and table.concat(rows) or table.concat(counts, ' '))}
