#!/usr/bin/env -S redlock lua
-- Any number of workers, anywhere: each job is done by one of them.
--
--     worker_pool.lua FOLDER COMMAND        each file in FOLDER is a job. COMMAND gets its path as
--                                           an argument; when it succeeds, the file is deleted
local folder, command = args[1], args[2]
assert(command, "usage: worker_pool.lua FOLDER COMMAND")

local function exists(path)
    local file = io.open(path)
    return file ~= nil and file:close()
end

-- The paths of the files, each followed by a NUL: their names may contain anything else.
local function list()
    local name = os.tmpname()
    local ok = run("find", folder, "-maxdepth", "1", "-type", "f", "-fprint0", name)
    local file = assert(io.open(name))
    local paths = file:read "*a"
    file:close()
    os.remove(name)
    assert(ok, "cannot read the folder " .. folder)
    return paths:gmatch "[^%z]+"
end

local done = 0
for path in list() do
    client:using("job:" .. path, { wait = 0 }, function()       -- another worker is at it: the next
        -- The shell reads COMMAND, but the path, which is $1 there, stays a name. The job may have
        -- been done since the folder was read.
        if exists(path) and run("sh", "-c", command .. ' "$1"', "sh", path) then
            assert(os.remove(path))
            done = done + 1
        end
    end)
end
print(done .. " jobs done")
