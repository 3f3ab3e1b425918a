--- The commands on hashes of a modelled Redis server (store.lua).

local store = require "redlock.testing.store"

local next, pairs = next, pairs
local format = string.format

local NOT_INTEGER, WRONGTYPE = store.NOT_INTEGER, store.WRONGTYPE
local command, find_as, integer, put = store.command, store.find_as, store.integer, store.put

local reads = store.reads("hash", {})

reads("HGET", 3, 3, function(hash, argv)
    return hash[argv[3]] or false
end)

reads("HEXISTS", 3, 3, function(hash, argv)
    return hash[argv[3]] and 1 or 0
end)

reads("HLEN", 2, 2, function(hash)
    local n = 0
    for _ in pairs(hash) do
        n = n + 1
    end
    return n
end)

reads("HMGET", 3, -1, function(hash, argv, n)
    local list = {}
    for i = 3, n do
        list[i - 2] = hash[argv[i]] or false
    end
    return list
end)

local function copy_of(hash)
    local copy = {}
    for field, value in pairs(hash or {}) do
        copy[field] = value
    end
    return copy
end

command("HSET", 4, -1, function(self, argv, n)
    local hash, entry = find_as(self, argv[2], "hash")
    if hash == false then
        return WRONGTYPE
    elseif n % 2 ~= 0 then
        return { err = "ERR wrong number of arguments for 'hset' command" }
    end
    local copy, added = copy_of(hash), 0
    for i = 3, n, 2 do
        added = added + (copy[argv[i]] and 0 or 1)
        copy[argv[i]] = argv[i + 1]
    end
    put(self, argv[2], entry, copy)
    return added
end)

command("HDEL", 3, -1, function(self, argv, n)
    local hash, entry = find_as(self, argv[2], "hash")
    if not hash then
        return hash == false and WRONGTYPE or 0
    end
    local copy, gone = copy_of(hash), 0
    for i = 3, n do
        gone = gone + (copy[argv[i]] and 1 or 0)
        copy[argv[i]] = nil
    end
    if gone > 0 then
        put(self, argv[2], entry, next(copy) and copy or nil)
    end
    return gone
end)

command("HINCRBY", 4, 4, function(self, argv)
    local by = integer(argv[4])
    if not by then
        return NOT_INTEGER
    end
    local hash, entry = find_as(self, argv[2], "hash")
    if hash == false then
        return WRONGTYPE
    end
    local now = integer(hash and hash[argv[3]] or "0")
    if not now then
        return { err = "ERR hash value is not an integer" }
    end
    local copy = copy_of(hash)
    copy[argv[3]] = format("%.0f", now + by)
    put(self, argv[2], entry, copy)
    return now + by
end)
