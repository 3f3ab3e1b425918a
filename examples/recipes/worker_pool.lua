#!/usr/bin/env -S redlock lua
-- Any number of workers share the jobs of a folder. One worker does a job, and deletes its file.
--
--     worker_pool.lua FOLDER COMMAND        each file in FOLDER is a job. COMMAND gets its path as
--                                           an argument; when it succeeds, the file is deleted
--
-- Exits with 1 if a job has failed; it stays for the next run. If a worker dies, another one
-- repeats its job. COMMAND gets REDLOCK_TOKEN: what it writes to can refuse workers with smaller
-- ones, which were paused past their lease.
local folder, command = args[1], args[2]
assert(command, "usage: worker_pool.lua FOLDER COMMAND")

local function exists(path)
    local file = io.open(path)
    return file ~= nil and file:close()
end

-- The paths of the files, each followed by a NUL: their names may contain anything else.
local function list()
    local name = os.tmpname()
    local ok = run("sh", "-c", [[
        exec find "$(realpath -- "$1")" -maxdepth 1 -type f -fprint0 "$2"]], "sh", folder, name)
    local file = assert(io.open(name))
    local paths = file:read "*a"
    file:close()
    os.remove(name)
    assert(ok, "cannot read the folder " .. folder)
    return paths:gmatch "[^%z]+"
end

local done, failed = 0, 0
for path in list() do
    local opts = { wait = 0, fenced = true }
    local held, err = client:using("job:" .. path, opts, function(lock, token)
        if not exists(path) then                    -- done since the folder was read
            return
        end
        -- The shell reads COMMAND, but the path, which is $1 there, stays a name.
        if not run("env", ("REDLOCK_TOKEN=%.0f"):format(token), "sh", "-c", command .. ' "$1"',
            "sh", path) then
            failed = failed + 1
            return
        end
        lock:check()                                -- without the lock, another worker has the job
        assert(os.remove(path))
        done = done + 1
    end)
    assert(held or err and err.code == "held", err or "lost " .. path)   -- held: another worker's
end
print(done .. " jobs done")
return failed == 0
