#!/usr/bin/env -S redlock lua
-- Takes this machine out of service for a job, of all machines at most N at a time:
--
--     drain.lua N COMMAND
--     drain.lua 2 './drain && ./upgrade && ./undrain'
local n, command = tonumber(args[1]), args[2]
assert(n and n >= 1 and command, "usage: drain.lua N COMMAND")

local permit = assert(client:getSemaphore("drain", n):acquire())   -- behind whoever is at it
print("slot " .. permit:slot())
assert(run("sh", "-c", command), "failed: " .. command)
assert(permit:release())
