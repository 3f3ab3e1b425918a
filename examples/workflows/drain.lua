#!/usr/bin/env -S redlock lua
-- Takes this machine out of service for a job, of all machines at most N at a time:
--
--     drain.lua N COMMAND
--     drain.lua 2 './drain && ./upgrade && ./undrain'
--
-- There are N slots, each a lock with a name of its own: who has one may go. (Counting holders up
-- to N on each server would let in more than N: majorities share only one server.)
local PATIENCE = 1                                  -- seconds at a slot

local n, command = tonumber(args[1]), args[2]
assert(n and n >= 1 and command, "usage: drain.lua N COMMAND")

local function slot(k)
    return client:getLock(("drain:%d"):format(k))
end

-- Any slot that is free; else waits at one after the other.
local function enter()
    local wait = 0
    while true do
        for k = 1, n do
            local ok, err = slot(k):tryLock(wait)
            if ok then
                return slot(k), k
            elseif err.code ~= "held" then
                error(err)
            end
        end
        wait = PATIENCE
    end
end

local lock, k = enter()
print("slot " .. k)
local ok = os.execute(command)
assert(ok == 0 or ok == true, "failed: " .. command)
assert(lock:unlock())
