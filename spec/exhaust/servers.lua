--- What may become of servers and clients of a small world, and the moments for that. Methods of a
-- stage.

local library = require "redlock.testing.library"

local C = library.core()
local SECOND, MS = 1e6, 1e3

-- What may become of a server. `lives`: its connections stay.
local FAULTS = {
    { "nothing happens" },
    { "restarts with its data" },
    { "restarts empty", forgets = true },
    { "is flushed", forgets = true, lives = true },
    { "fails over to what it had at first", forgets = true, lives = true, back = true },
}
-- What may become of a client after something; after something else in the same microsecond; and
-- between two statements.
local STILL = { "stands still for a lease", still = true }
local AGAIN = { { "nothing happens" }, { "is cut off from all servers", cut = true },
    { "is 0.1 s away from all servers", away_us = 0.1 * SECOND } }
local TROUBLES = { AGAIN[1], AGAIN[2], AGAIN[3], STILL }
local READS = { AGAIN[1], STILL }
local START = { { "later" }, { "B begins" } }

local Stage = {}

--- Something has happened: here B may begin, a client may get into trouble, and, where it happened
-- on a server, so may that server. Of all that happens in one microsecond B may begin after the
-- first thing alone: its messages come after the others, too. A client in trouble can tell things
-- of one microsecond apart only by its own messages: which answer, or request, is the first that
-- does not pass as usual.
-- @param server  or nil
-- @param sender  of the message that was executed, or nil
function Stage:moment(server, text, sender)
    if not self.open then
        return
    end
    text = text .. ","
    local first, who = self.moment_us ~= C.sim_now(), self.world_of.in_trouble
    self.moment_us = C.sim_now()
    if first and self.begin and self.x:choose("start", START, text) == 2 then
        self.begin()
    end
    if who and (first or sender == who) then
        self:trouble(who, first and TROUBLES or AGAIN, text)
    end
    if server and C.sim_now() < self.faults_until_us then
        local name = "server " .. server.index + 1
        self:strike(server, FAULTS[self.x:choose("fault", FAULTS, text, name)])
    end
end

--- A key's end, which nobody sends, is a moment, too.
function Stage:watch_end(server, new)
    local at = new and new.at
    if at and at > (self.ends[server] or 0) then
        self.ends[server] = at
        self.world.world:later((at + 1) * MS - server:clock(), function()
            if self.ends[server] == at then
                self:moment(server, "after the end of the key on server " .. server.index + 1)
            end
        end)
    end
end

-- ---- clients ---------------------------------------------------------------------------

--- us: how long a request or an answer of a client takes.
function Stage:away(who, us)
    for i = 0, #self.world.nodes - 1 do
        C.sim_path(self.process[who], i, us, 0)
    end
end

--- A client may get into trouble.
function Stage:trouble(who, troubles, text)
    local trouble = troubles[self.x:choose("client", troubles, text, who)]
    if trouble == troubles[1] then
        return
    end
    self:log("%s %s", who, trouble[1])
    if trouble.cut then
        self.cut_off = who
    elseif trouble.still then
        self.still[who] = C.sim_now() + self.lease * SECOND
        C.sim_stop(self.process[who], self.still[who], 0)
    else
        self:away(who, trouble.away_us)
    end
end

--- A client may stand still before it reads what has come, say.
function Stage:pause(who, what)
    if self.open and who and who == self.world_of.in_trouble then
        self:trouble(who, READS, "before it " .. what .. ",")
        self:rest(who, 0)
    end
end

--- A client lets time pass, and longer where its process stands still.
function Stage:rest(who, seconds)
    self.world:advance(seconds)
    while (self.still[who] or 0) > C.sim_now() do
        self.world:advance((self.still[who] - C.sim_now()) / SECOND)
    end
end

-- ---- servers ---------------------------------------------------------------------------

--- What becomes of a server, but not within its answer.
function Stage:strike(server, fault)
    if fault == FAULTS[1] then
        return
    end
    self:log("server %d %s", server.index + 1, fault[1])
    self.world.world:later(0, function()
        local first = self.first[server]
        self.lost[server] = fault.forgets and C.sim_now() or self.lost[server]
        server.base = self.base_of(fault.back and first or server.db)
        if fault.back then
            server:live_on(self.copy(first))
        elseif fault.lives then
            server.db = {}
        else
            self.world:kill(server.index + 1)
            self.world:start(server.index + 1, { forgotten = fault.forgets })
        end
    end)
end

--- A server restarts empty.
function Stage:forget(i)
    self:strike(self.world.world.servers[i], FAULTS[3])
end

return Stage
