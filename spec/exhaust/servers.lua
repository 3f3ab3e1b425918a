--- Servers of a small world: the world they are in, their faults and the moments for them. Methods
-- of a stage.

local library = require "redlock.testing.library"
local testing = require "redlock.testing"

local format = string.format
local getmetatable, setmetatable, type = getmetatable, setmetatable, type
local ipairs, pairs = ipairs, pairs

local C = library.core()
local SECOND, MS = 1e6, 1e3
local FAULTS = { { "goes on" }, { "restarts with its data" },
    { "restarts empty", forgotten = true } }
local START = { { "later" }, { "B begins" } }
local TROUBLES = { { "goes on" }, { "is cut off from all servers", cut = true },
    { "is 0.1 s away from all servers" } }
local AWAY_US = 0.1 * SECOND

local Stage = {}

--- A request or an answer of a client takes so many us.
function Stage:away(who, us)
    for process, name in pairs(self.names) do
        for i = 0, name == who and #self.world.nodes - 1 or -1 do
            C.sim_path(process, i, us, 0)
        end
    end
end

--- Something has happened: here B may begin, a client may get into trouble, and, where it happened
-- on a server, that server may restart.
function Stage:moment(server, text, ...)
    local x = self.x
    if not self.open then
        return
    end
    if self.begin and x:choose("start", START, format(text, ...)) == 2 then
        self.begin()
    end
    local whom = self.world_of.in_trouble
    local trouble = whom and TROUBLES[x:choose("client", TROUBLES, format(text, ...), whom)]
    if trouble and trouble ~= TROUBLES[1] then
        self:log("%s %s", whom, trouble[1])
        if trouble.cut then
            self.cut_off = whom
        else
            self:away(whom, AWAY_US)
        end
    end
    local faults = server and C.sim_now() < self.faults_until_us
    local fault = faults and FAULTS[x:choose("fault", FAULTS, format(text, ...), "server "
        .. server.index + 1)] or FAULTS[1]
    if fault ~= FAULTS[1] then
        self:restart(server, fault.forgotten)
    end
end

-- Restarts a server, but not within its answer.
function Stage:restart(server, forgotten)
    self:log("server %d restarts %s", server.index + 1, forgotten and "empty" or "with its data")
    self.lost[server] = forgotten and C.sim_now() or self.lost[server]
    self.world.world:later(0, function()
        self.world:kill(server.index + 1)
        self.world:start(server.index + 1, { forgotten = forgotten })
    end)
end

--- A server that forgot gives no vote, and gets no floor, before its quarantine has ended.
function Stage:watch_quarantines()
    for _, server in ipairs(self.world.world.servers) do
        local base
        function server.on_script(_, sha, _, _, result)
            local lost_us, floor = self.lost[server], server:entry "redlock:{server}:floor"
            local now_base = floor and floor.value.base
            local early = lost_us
                and C.sim_now() < lost_us + (self.LEASE * 1.01 + 1) * SECOND - 5 * MS
            local first = type(result) == "table" and result[1] or result
            local votes = self:role_of(sha) == "acquire"
                and server.last_word ~= ""       -- to heal
            if early and votes and (first == 1 or first == 2) then
                self:wrong("server %d votes in its quarantine", server.index + 1)
            elseif early and now_base and now_base ~= base then
                self:wrong("server %d gets a floor in its quarantine", server.index + 1)
            end
            base = now_base
        end
    end
end

--- A key's end, which nobody sends, is a moment, too.
function Stage:watch_ends()
    for _, server in ipairs(self.world.world.servers) do
        server.on_write = function(_, key, _, new)
            local at = key == self.key and new and new.at
            if at and at > (self.ends[server] or 0) then
                self.ends[server] = at
                self.world.world:later((at + 1) * MS - server:clock(), function()
                    if self.ends[server] == at then
                        self:moment(server, "after the end of the key on server %d",
                            server.index + 1)
                    end
                end)
            end
        end
    end
end

-- ---- the world ---------------------------------------------------------------------------

local function copied(value)
    if type(value) ~= "table" then
        return value
    end
    local copy = {}
    for k, v in pairs(value) do
        copy[k] = copied(v)
    end
    return setmetatable(copy, getmetatable(value))
end

--- A world whose servers may vote. What `init` wrote on them in the first one is copied to the
-- others.
local voting
function Stage:open_world(lease)
    local world = testing.new { nodes = 3, round_trip = 0.0002, new_cluster = voting ~= nil,
        client = { lease = lease, max_lease = lease, timeout = self.TIMEOUT,
            connect_timeout = self.TIMEOUT, metrics = false, on_event = false } }
    local first = not voting
    voting = voting or {}
    for i, server in ipairs(world.world.servers) do
        voting[i] = voting[i] or {}
        for key, entry in pairs(first and server.db or voting[i]) do
            local list = first and voting[i] or server.db
            list[key] = { value = copied(entry.value), at = entry.at }
        end
    end
    return first and self:open_world(lease) or world
end

return Stage
