#!/usr/bin/env -S redlock lua
-- One of all who run this leads, until it ends, or loses the lock; then another one does.
--
--     leader.lua COMMAND        COMMAND is a step of a leader's work, which is run once a second
local command = assert(args[1], "usage: leader.lua COMMAND")
local lock = client:getLock "leader"

while true do
    assert(lock:lock())                             -- kept by the watchdog
    print "leads"
    io.stdout:flush()
    while lock:isValid() do                         -- by the local clock: ends before the lease
        os.execute(command)
        os.execute "sleep 1"
    end
    print "leads no more"
    io.stdout:flush()
    lock:unlock()
end
