#!/usr/bin/env -S redlock lua
-- Any number of workers, anywhere: each job is done by one of them.
--
--     worker_pool.lua FOLDER COMMAND        COMMAND gets the path of a file of FOLDER, a job, which
--                                           is removed when it succeeds
local folder, command = args[1], args[2]
assert(command, "usage: worker_pool.lua FOLDER COMMAND")

local function succeeds(text)
    local status = os.execute(text)
    return status == 0 or status == true
end

local function exists(path)
    local file = io.open(path)
    return file ~= nil and file:close()
end

local done = 0
for name in io.popen("ls '" .. folder .. "'"):lines() do
    local path = folder .. "/" .. name
    client:using("job:" .. path, { wait = 0 }, function()       -- another worker is at it: the next
        -- It may have been done since the folder was read.
        if exists(path) and succeeds(command .. " '" .. path .. "'") then
            os.remove(path)
            done = done + 1
        end
    end)
end
print(done .. " jobs done")
