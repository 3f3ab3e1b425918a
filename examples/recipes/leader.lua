#!/usr/bin/env -S redlock lua
-- Of all the processes that run this, one leads. When it ends or loses the lead, another one
-- takes over.
--
--     leader.lua COMMAND        COMMAND is a step of the leader's work. It runs once a second.
--                               REDLOCK_TOKEN is the term. Send it with each write: the receiver
--                               can refuse smaller ones
local command = assert(args[1], "usage: leader.lua COMMAND")
local host = io.popen("uname -n"):read "*l"
local election = client:getElection("scheduler", { id = host })

while true do
    local term, err = election:campaign()           -- waits until it is elected
    if term then
        print "leads"
        io.stdout:flush()
        while election:isLeader() do                -- by the local clock: ends before the lease
            run("env", ("REDLOCK_TOKEN=%.0f"):format(term), "sh", "-c", command)
            run("sleep", "1")
        end
        print "leads no more"
        io.stdout:flush()
    else
        io.stderr:write(tostring(err), "\n")        -- the servers are out of reach, say
        run("sleep", "1")
    end
end
