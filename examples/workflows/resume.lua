#!/usr/bin/env -S redlock lua
-- Runs the steps of a job once a day. When a run dies, the next one resumes after its last step.
--
--     resume.lua JOB DATABASE STEP...         each STEP is a command of the shell that prints SQL
--
-- SQLite runs the SQL of a step and counts the step in one transaction. A step whose run has lost
-- the lock to another one changes nothing. The next run repeats a step that has failed.
local job, database, steps = args[1], args[2], { unpack(args, 3) }
assert(steps[1], "usage: resume.lua JOB DATABASE STEP...")
local key = "'" .. (job .. " " .. os.date "!%F"):gsub("'", "''") .. "'"

local SH = [[
    case $1 in /*) database=$1 ;; *) database=./$1 ;; esac
    sql=$(sh -c "$3") || exit 1
    printf '%s\n' 'BEGIN IMMEDIATE;' "$4" "$sql" "$5" |
        sqlite3 -bail -cmd '.timeout 10000' "$database" > "$2"]]

-- Runs in one transaction: SQL, what the step prints, and SQL whose last line is printed.
local function transaction(step, first, last)
    local output = os.tmpname()
    local ok = run("sh", "-c", SH, "sh", database, output, step, first, last)
    local file = assert(io.open(output))
    local number = tonumber(file:read("*a"):match "(%d+)\n$")
    file:close()
    os.remove(output)
    assert(ok and number, "failed: " .. step)
    return number
end

local ran, err = client:once("job:" .. job, 23 * 3600, function(lock, token)
    token = ("%.0f"):format(token)
    local done = transaction("true", ([[
        CREATE TABLE IF NOT EXISTS progress (job TEXT PRIMARY KEY, token INTEGER, steps INTEGER);
        INSERT INTO progress VALUES (%s, %s, 0) ON CONFLICT (job)
        DO UPDATE SET token = excluded.token WHERE token < excluded.token;]]):format(key, token),
        ("COMMIT; SELECT steps FROM progress WHERE job = %s;"):format(key))
    for i = done + 1, #steps do
        lock:check()
        print("step " .. i)
        transaction(steps[i], ([[
            CREATE TEMP TABLE mine (still CHECK (still));
            INSERT INTO mine SELECT token = %s AND steps = %d FROM progress WHERE job = %s;]])
            :format(token, i - 1, key),
            ("UPDATE progress SET steps = %d WHERE job = %s; COMMIT; SELECT %d;"):format(i, key, i))
    end
end, { fenced = true })
assert(ran or err.code == "held", err)
print(ran and "done" or "another run is at it, or has run today")
