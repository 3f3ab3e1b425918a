#!/usr/bin/env -S redlock lua
-- Of all processes that run this, one leads. When it ends or loses the lead, another takes over.
--
--     leader.lua COMMAND        COMMAND is a step of a leader's work, which is run once a second.
--                               REDLOCK_TOKEN is the term: what it writes to can refuse older ones
local command = assert(args[1], "usage: leader.lua COMMAND")
local host = io.popen("uname -n"):read "*l"
local election = client:getElection("scheduler", { id = host })

while true do
    local term = ("%.0f"):format(assert(election:campaign()))      -- waits until it is won
    print "leads"
    io.stdout:flush()
    while election:isLeader() do                    -- by the local clock: ends before the lease
        run("env", "REDLOCK_TOKEN=" .. term, "sh", "-c", command)
        run("sleep", "1")
    end
    print "leads no more"
    io.stdout:flush()
end
