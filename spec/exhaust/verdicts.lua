--- Who holds in a small world, and what went wrong. Methods of a stage.

local library = require "redlock.testing.library"

local format, insert, remove = string.format, table.insert, table.remove
local ipairs, pairs = ipairs, pairs

local C = library.core()
local SECOND = 1e6

local Stage = {}

function Stage:log(...)
    if self.events then
        insert(self.events, format("%10.4f  ", C.sim_now() / SECOND) .. format(...))
    end
end

--- It went wrong. The first fault counts.
function Stage:wrong(...)
    self.fault = self.fault or format(...)
    self:log("WRONG: %s", self.fault)
end

--- Somebody has it: whoever holds must be alone while it is valid, until gone().
-- @return the hold
function Stage:got(who, lock, token)
    self:log("%s holds, for %.3f s%s", who, lock:remaining(), token and ", token " .. token or "")
    local hold = { who = who, lock = lock }
    insert(self.holds, hold)
    self:look()
    if token and self.token and token <= self.token then
        self:wrong("%s got token %d after token %d", who, token, self.token)
    end
    self.token = token or self.token
    return hold
end

function Stage:gone(hold)
    for i, one in ipairs(self.holds) do
        if one == hold then
            remove(self.holds, i)
            self:log("%s releases", hold.who)
        end
    end
end

--- At most one of the holds is valid; one that is kept was told of its loss before it ends.
function Stage:look()
    local valid
    for _, hold in ipairs(self.holds) do
        if hold.lock:remaining() > 0 then
            if valid then
                self:wrong("%s and %s hold, for %.3f s and %.3f s more", valid.who, hold.who,
                    valid.lock:remaining(), hold.lock:remaining())
            end
            valid = hold
        elseif hold.kept and not hold.told then
            self:wrong("%s was not told of its loss", hold.who)
        end
    end
end

--- No key of a lock is left.
function Stage:nothing_left()
    for _, server in ipairs(self.world.world.servers) do
        for key in pairs(server.db) do
            if server:entry(key) and not key:find "{server}" and not key:find ":fence$" then
                self:wrong("%s is left on server %d", key, server.index + 1)
            end
        end
    end
end

return Stage
