#!/usr/bin/env -S redlock lua
-- A file of settings with many readers and few writers. Readers never see a partial change, and a
-- writer that fails or dies changes nothing.
--
--     config_store.lua FILE get KEY                exits with 1 if there is no such setting
--     config_store.lua FILE set KEY VALUE          needs fenced.sh beside it
local path, verb, key, value = args[1], args[2], args[3], args[4]
assert(key and (verb == "get" or verb == "set" and value), "usage: config_store.lua FILE get KEY, "
    .. "or: set KEY VALUE")
assert(key:find "^%S+$" and not (value or ""):find "\n", "KEY is one word, and VALUE one line")

local settings = client:getReadWriteLock("config:" .. path, { fenced = true })

local function load()
    local values, file, why, errno = {}, io.open(path)
    assert(file or errno == 2, why)                 -- 2: no such file, so there are no settings yet
    for line in (file and assert(file:read "*a") or ""):gmatch "[^\n]+" do
        local name, text = line:match "^(%S+) = (.*)$"
        values[assert(name, "not a setting: " .. line)] = text
    end
    return values, file and file:close()
end

-- Runs a command unless a writer with a larger token has been here.
local function fenced(token, ...)
    local here = args[0]:match "^.*/" or "./"
    assert(run("sh", here .. "fenced.sh", path, token, ...), "cannot write " .. path)
end

-- Writes all to a new file, and then replaces the old one in one step.
local function save(values, token)
    local new = path .. ".new." .. token                        -- a name that no other writer uses
    assert(run("sh", "-c", '[ ! -e "$1" ] || cp -p -- "$1" "$2"', "sh", path, new),
        "cannot copy " .. path)                   -- keeps its owner and mode
    local file = assert(io.open(new, "w"))
    for name, text in pairs(values) do
        assert(file:write(name, " = ", text, "\n"))
    end
    assert(file:close())
    assert(run("sync", "--", new), "cannot write " .. new)
    fenced(token, "mv", "-f", "--", new, path)
end

if verb == "get" then
    local lock = settings:readLock()                -- beside other readers
    assert(lock:lock())
    local text = load()[key]
    assert(lock:unlock())
    return text ~= nil and (print(text) or true)
end
local lock = settings:writeLock()
local _, token = assert(lock:lock())
token = ("%.0f"):format(token)
fenced(token, "true")                               -- older writers are refused from here on
local values = load()
values[key] = value
save(values, token)
assert(lock:unlock())
