#!/usr/bin/env -S redlock lua
-- A file of settings that many read and few write: who reads sees no half of a change.
--
--     config_store.lua FILE get KEY
--     config_store.lua FILE set KEY VALUE
local path, verb, key, value = args[1], args[2], args[3], args[4]
assert(key and (verb == "get" or verb == "set" and value), "usage: config_store.lua FILE get KEY, "
    .. "or: set KEY VALUE")

local settings = client:getReadWriteLock("config:" .. path)

local function load()
    local values, file = {}, io.open(path)
    for line in (file and file:read "*a" or ""):gmatch "[^\n]+" do
        local name, text = line:match "^(%S+) = (.*)$"
        values[name] = text
    end
    return values, file and file:close()
end

local function save(values)
    local file = assert(io.open(path, "w"))
    for name, text in pairs(values) do
        file:write(name, " = ", text, "\n")
    end
    assert(file:close())
end

if verb == "get" then
    local lock = settings:readLock()                -- beside other readers
    assert(lock:lock())
    print(load()[key])
    assert(lock:unlock())
else
    local lock = settings:writeLock()
    assert(lock:lock())
    local values = load()
    values[key] = value
    lock:check()                                    -- raises when it is not ours any more
    save(values)
    assert(lock:unlock())
end
