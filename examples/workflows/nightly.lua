#!/usr/bin/env -S redlock lua
-- A chain of jobs, each begun when the one before has succeeded, on one machine of all whose cron
-- starts this:
--
--     0 3 * * *  nightly.lua './export.sh' './report.sh' './prune.sh'
--
-- The name stays closed for a while after the beginning: clocks of machines differ, and a chain
-- that is done within that time would be run again by the next one.
local CLOCKS = 3600                                 -- seconds

assert(args[1], "usage: nightly.lua JOB...")
local lock = client:getLock "nightly"
local ok, err = lock:tryLock()
if not ok then
    if err.code == "held" then
        return                                      -- another machine does it
    end
    error(err)
end
local failed
for i, job in ipairs(args) do
    lock:check()                                    -- raises when another machine may do it
    local done = os.execute(job)
    if done ~= 0 and done ~= true then
        failed = ("job %d failed: %s"):format(i, job)
        break
    end
end
assert(lock:unlock { closed_for = CLOCKS })         -- also then: no other machine tries again
assert(not failed, failed)
