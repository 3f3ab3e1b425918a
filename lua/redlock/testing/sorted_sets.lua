--- The commands on sorted sets of a modelled Redis server (store.lua).

local store = require "redlock.testing.store"

local ipairs, pairs, setmetatable, tonumber = ipairs, pairs, setmetatable, tonumber
local huge, max, min = math.huge, math.max, math.min
local find, format, lower, sub = string.find, string.format, string.lower, string.sub
local sort = table.sort

local NOT_INTEGER, SYNTAX, WRONGTYPE = store.NOT_INTEGER, store.SYNTAX, store.WRONGTYPE
local NOT_FLOAT = { err = "ERR value is not a valid float" }
local NO_RANGE = { err = "ERR min or max is not a float" }
local NO_LEX = { err = "ERR min or max not valid string range item" }
local command, find_as, integer, put = store.command, store.find_as, store.integer, store.put
local unsupported, upper = store.unsupported, store.upper

-- score: member -> number; n: how many members; list: the members in order, or nil: not sorted yet
local Set = { is = "zset" }

local INFINITE = { inf = huge, ["+inf"] = huge, ["-inf"] = -huge }

-- The number in a text, or nil.
local function float(text)
    return INFINITE[lower(text)] or find(text, "^[%d.eE+-]+$") and tonumber(text) or nil
end

local function score_text(score)
    return score == huge and "inf" or score == -huge and "-inf" or format("%.17g", score)
end

local function copy_of(set)
    local copy = setmetatable({ score = {}, n = set and set.n or 0 }, Set)
    for member, score in pairs(set and set.score or {}) do
        copy.score[member] = score
    end
    return copy
end

-- Its members by score, and by name where scores are equal.
local function in_order(set)
    local list, score = set.list, set.score
    if not list then
        list = {}
        for member in pairs(score) do
            list[#list + 1] = member
        end
        sort(list, function(a, b)
            if score[a] ~= score[b] then
                return score[a] < score[b]
            end
            return a < b
        end)
        set.list = list
    end
    return list
end

local EMPTY = setmetatable({ score = {}, n = 0, list = {} }, Set)

local reads = store.reads("zset", EMPTY)

local ADD_MORE = { NX = true, XX = true, GT = true, LT = true, CH = true, INCR = true }

command("ZADD", 4, -1, function(self, argv, n)
    if ADD_MORE[upper(argv[3])] then
        return unsupported(self, "ZADD with " .. upper(argv[3]))
    elseif n % 2 ~= 0 then
        return SYNTAX
    end
    for i = 3, n, 2 do
        if not float(argv[i]) then
            return NOT_FLOAT
        end
    end
    local set, entry = find_as(self, argv[2], "zset")
    if set == false then
        return WRONGTYPE
    end
    local copy, before = copy_of(set), set and set.n or 0
    for i = 3, n, 2 do
        local member = argv[i + 1]
        copy.n = copy.n + (copy.score[member] and 0 or 1)
        copy.score[member] = float(argv[i])
    end
    put(self, argv[2], entry, copy)
    return copy.n - before
end)

-- Removes members. Returns how many there were.
local function remove(self, key, set, entry, members)
    local copy = copy_of(set)
    for i = 1, #members do
        copy.n = copy.n - (copy.score[members[i]] and 1 or 0)
        copy.score[members[i]] = nil
    end
    if copy.n < set.n then
        put(self, key, entry, copy.n > 0 and copy or nil)
    end
    return set.n - copy.n
end

command("ZREM", 3, -1, function(self, argv, n)
    local set, entry = find_as(self, argv[2], "zset")
    if not set then
        return set == false and WRONGTYPE or 0
    end
    return remove(self, argv[2], set, entry, { unpack(argv, 3, n) })
end)

reads("ZSCORE", 3, 3, function(set, argv)
    local score = set.score[argv[3]]
    return score and score_text(score) or false
end)

reads("ZCARD", 2, 2, function(set)
    return set.n
end)

reads("ZRANK", 3, 3, function(set, argv)
    for i, member in ipairs(in_order(set)) do
        if member == argv[3] then
            return i - 1
        end
    end
    return false
end)

-- A reply: some members, with their scores if wanted.
local function reply(set, members, scores)
    local list = {}
    for i = 1, #members do
        list[#list + 1] = members[i]
        list[#list + 1] = scores and score_text(set.score[members[i]]) or nil
    end
    return list
end

local RANGE_MORE = { BYSCORE = true, BYLEX = true, REV = true, LIMIT = true }

reads("ZRANGE", 4, -1, function(set, argv, n, self)
    local from, to, scores = integer(argv[3]), integer(argv[4]), false
    for i = 5, n do
        local word = upper(argv[i])
        if RANGE_MORE[word] then
            return unsupported(self, "ZRANGE with " .. word)
        elseif word ~= "WITHSCORES" then
            return SYNTAX
        end
        scores = true
    end
    if not (from and to) then
        return NOT_INTEGER
    end
    local all, part = in_order(set), {}
    from, to = from < 0 and max(set.n + from, 0) or from, to < 0 and set.n + to or to
    for i = from + 1, min(to + 1, set.n) do
        part[#part + 1] = all[i]
    end
    return reply(set, part, scores)
end)

-- WITHSCORES and LIMIT, from word i on: whether scores, offset, count; or nil and an error.
local function options(argv, n, i)
    local scores, offset, count = false, 0, -1
    while i <= n do
        local word = upper(argv[i])
        if word == "WITHSCORES" then
            scores = true
        elseif word == "LIMIT" and i + 2 <= n then
            offset, count = integer(argv[i + 1]), integer(argv[i + 2])
            if not (offset and count) then
                return nil, NOT_INTEGER
            end
            i = i + 2
        else
            return nil, SYNTAX
        end
        i = i + 1
    end
    return scores, offset, count
end

-- The members of a list for which is(member) holds, within LIMIT.
local function filtered(list, is, offset, count)
    local part, skipped = {}, 0
    for _, member in ipairs(list) do
        if is(member) then
            if skipped < offset then
                skipped = skipped + 1
            elseif count < 0 or #part < count then
                part[#part + 1] = member
            end
        end
    end
    return offset < 0 and {} or part
end

-- A function: whether a member's score is between two bounds; nil: they are not bounds.
local function score_range(set, from, to)
    local from_open, to_open = sub(from, 1, 1) == "(", sub(to, 1, 1) == "("
    local low = from == "(" and 0 or float(from_open and sub(from, 2) or from)
    local high = to == "(" and 0 or float(to_open and sub(to, 2) or to)
    return low and high and function(member)
        local score = set.score[member]
        return (score > low or score == low and not from_open)
            and (score < high or score == high and not to_open)
    end
end

reads("ZRANGEBYSCORE", 4, -1, function(set, argv, n)
    local is = score_range(set, argv[3], argv[4])
    if not is then
        return NO_RANGE
    end
    local scores, offset, count = options(argv, n, 5)
    if scores == nil then
        return offset
    end
    return reply(set, filtered(in_order(set), is, offset, count), scores)
end)

reads("ZCOUNT", 4, 4, function(set, argv)
    local is = score_range(set, argv[3], argv[4])
    return is and #filtered(in_order(set), is, 0, -1) or NO_RANGE
end)

command("ZREMRANGEBYSCORE", 4, 4, function(self, argv)
    local set, entry = find_as(self, argv[2], "zset")
    local is = score_range(set or EMPTY, argv[3], argv[4])
    if not is then
        return NO_RANGE
    elseif not set then
        return set == false and WRONGTYPE or 0
    end
    return remove(self, argv[2], set, entry, filtered(in_order(set), is, 0, -1))
end)

-- A function: whether a member is on the inner side of a bound by name; nil: not a bound.
local function lex_end(text, is_low)
    if text == "-" or text == "+" then
        local all = (text == "-") == is_low
        return function() return all end
    end
    local kind, value = sub(text, 1, 1), sub(text, 2)
    if kind ~= "(" and kind ~= "[" then
        return nil
    end
    return function(member)
        if member == value then
            return kind == "["
        end
        return (member > value) == is_low
    end
end

reads("ZRANGEBYLEX", 4, -1, function(set, argv, n)
    local low, high = lex_end(argv[3], true), lex_end(argv[4], false)
    if not (low and high) then
        return NO_LEX
    end
    local scores, offset, count = options(argv, n, 5)
    if scores ~= false then
        return offset or SYNTAX
    end
    return filtered(in_order(set), function(member)
        return low(member) and high(member)
    end, offset, count)
end)
