--- The commands on lists of a modelled Redis server (store.lua).

local store = require "redlock.testing.store"

local setmetatable, max, min = setmetatable, math.max, math.min

local NOT_INTEGER, WRONGTYPE = store.NOT_INTEGER, store.WRONGTYPE
local command, find_as, integer, put = store.command, store.find_as, store.integer, store.put

local List = { is = "list" }

-- A copy of the elements i to j of a list.
local function part(list, i, j)
    local copy = setmetatable({}, List)
    for k = i, j do
        copy[#copy + 1] = list[k]
    end
    return copy
end

local reads = store.reads("list", {})

reads("LLEN", 2, 2, function(list)
    return #list
end)

reads("LRANGE", 4, 4, function(list, argv)
    local from, to, n = integer(argv[3]), integer(argv[4]), #list
    if not (from and to) then
        return NOT_INTEGER
    end
    from, to = from < 0 and max(n + from, 0) or from, to < 0 and n + to or to
    return part(list, from + 1, min(to + 1, n))
end)

command("LINDEX", 3, 3, function(self, argv)
    local list = find_as(self, argv[2], "list")
    if not list then
        return list == false and WRONGTYPE
    end
    local i = integer(argv[3])
    if not i then
        return NOT_INTEGER
    end
    return list[i < 0 and #list + i + 1 or i + 1] or false
end)

local function push(name, front)
    command(name, 3, -1, function(self, argv, n)
        local list, entry = find_as(self, argv[2], "list")
        if list == false then
            return WRONGTYPE
        end
        local copy = part(list or {}, 1, list and #list or 0)
        for i = 3, n do
            table.insert(copy, front and 1 or #copy + 1, argv[i])
        end
        put(self, argv[2], entry, copy)
        return #copy
    end)
end

push("LPUSH", true)
push("RPUSH", false)

local function pop(name, front)
    command(name, 2, 3, function(self, argv, n)
        if n > 2 then
            return store.unsupported(self, name .. " of several")
        end
        local list, entry = find_as(self, argv[2], "list")
        if not list then
            return list == false and WRONGTYPE
        end
        local rest = part(list, front and 2 or 1, front and #list or #list - 1)
        put(self, argv[2], entry, rest[1] and rest)
        return list[front and 1 or #list]
    end)
end

pop("LPOP", true)
pop("RPOP", false)

command("LREM", 4, 4, function(self, argv)
    local count = integer(argv[3])
    if not count then
        return NOT_INTEGER
    end
    local list, entry = find_as(self, argv[2], "list")
    if not list then
        return list == false and WRONGTYPE or 0
    end
    local rest, most, gone = part(list, 1, #list), count == 0 and #list or math.abs(count), 0
    for k = 1, #list do
        local i = count < 0 and #list + 1 - k or k - gone
        if rest[i] == argv[4] and gone < most then
            table.remove(rest, i)
            gone = gone + 1
        end
    end
    if gone > 0 then
        put(self, argv[2], entry, rest[1] and rest)
    end
    return gone
end)
