#!/usr/bin/env -S redlock lua
-- Works on a host, on at most N hosts at a time, and on no further ones after a failure.
--
--     drain.lua N COMMAND HOST              COMMAND is a command of the shell, in which $1 is HOST
--
-- Run it on each host, or run all of them from one:
--
--     for host in web1 web2 web3; do redlock lua drain.lua 2 './upgrade "$1"' $host & done; wait
--
-- A failure stops the others before their work, for an hour. To continue sooner:
--
--     redlock unlock --force drain:stopped
local STOPPED = 3600                                -- seconds

local n, command, host = tonumber(args[1]), args[2], args[3]
assert(n and n >= 1 and host, "usage: drain.lua N COMMAND HOST")

local permit = assert(client:getSemaphore("drain", n):acquire())
local stop = client:getLock("drain:stopped", { label = host .. " failed" })
local by, err = stop:holder()
assert(by == false, err or "stopped: " .. (by and by.label or "by hand"))
print(host .. ": slot " .. permit:slot())
if not run("sh", "-c", command, "sh", host) then
    local ok, why = stop:tryLock(5)
    if ok then
        ok, why = stop:unlock { closed_for = STOPPED }
    end
    assert(ok or why.code == "held", why)           -- held: another failure has stopped them
    error(host .. " failed: " .. command)
end
assert(permit:release())
