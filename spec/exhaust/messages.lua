--- What may become of a message of a small world: of a request and its answer. Methods of a stage.

local host = require "redlock.testing.host"
local library = require "redlock.testing.library"
local sha1 = require "redlock.testing.sha1"

local getmetatable, ipairs, pairs, tostring, type = getmetatable, ipairs, pairs, tostring, type
local max, concat, format, insert = math.max, table.concat, string.format, table.insert

local C = library.core()
local SECOND, MS = 1e6, 1e3

local Stage = {}

-- `late`: when the request arrives; `breaks`: its connection breaks at once. A late message holds
-- up what follows on its connection; where that broke, its client may overtake it over the next
-- one. The end of the key is that of the key on that server, or of a lease where it has none.
local PATHS = {
    { "arrives" },
    { "arrives a moment later", late = "moment" },     -- than what goes to the other servers
    { "arrives after the time-out", late = "time-out" },
    { "arrives just after the end of the key", late = "end" },
    { "arrives just after the end of the key, over a connection that broke", late = "end",
        breaks = true },
    { "arrives in the last moment of the key, over a connection that broke", late = "last",
        breaks = true },
    { "is lost with its connection", lost = true, breaks = true },
    { "is executed, and the answer is lost with its connection", breaks = true },
    { "is executed, and the answer never arrives", mute = true },
}
local ORDER = { { "in the order of sending" }, { "in the other order" } }

-- ---- scripts have roles ----------------------------------------------------------------

local roles = { ["redlock:{server}:marker"] = "marker" }     -- by what follows the command's name
local enter, wait = host.enter, host.wait
local present                -- the stage that runs

local function know(role, text)
    roles[text], roles[sha1.hex(text)] = role, role
end

local function hear(texts)
    local register = texts.register
    function texts.register(core, client, what, body)
        if what ~= "a question" then
            know(what, body)
        end
        return register(core, client, what, body)
    end
end

-- The library of worlds is loaded with the first one, and shares what knows kinds.
hear(require "redlock.runtime.script_text")
function host.enter(world, part)
    host.enter = enter
    hear(part "redlock.runtime.script_text")
    local own, lock = part("redlock.runtime.script_text").own, part "redlock.lock.lock"
    know("mark", own "marker.set")
    know("floors", own "fenced.tell")
    know("force", part("redlock.kinds.plain_lock").force_script)     -- asked of each alone
    local hold_of = lock.hold_of
    function lock.hold_of(view)
        if present and present.world_of.pauses then
            present:pause(present.names[view.client], "looks at its hold")
        end
        return hold_of(view)
    end
    return enter(world, part)
end

-- Who sent what arrives, or goes on; nil: a client that has no name.
local function sender(self)
    return self.names[C.sim_record().process]
end

-- Between an answer and who reads it.
function host.wait(round)
    local waits = C.rl_round_outcome(round) == 0
    local outcome = wait(round)
    if waits and present then
        present:pause(sender(present), "reads an answer")
    end
    return outcome
end

--- This is the stage that runs; nil: none.
function Stage.attend(stage)
    present = stage
end

-- ---- paths ----------------------------------------------------------------------------

-- The answer of a script, as comments in the script write it.
local function as_text(answer)
    if type(answer) ~= "table" then
        return type(answer) == "number" and format("%.14g", answer) or tostring(answer)
    end
    local words = {}
    for i, one in ipairs(answer) do
        words[i] = as_text(one)
    end
    return answer.err or "{" .. concat(words, ", ") .. "}"
end

-- A message is { server, conn, argv, n, runs: how often its server had started, who: sent it, role,
-- what: it is for people; nil: nobody looks at it }. At a process that has died nothing arrives.
local function execute(self, message)
    local server, what = message.server, message.what
    if server.runs ~= message.runs then
        return
    end
    local reply = server.reply
    if self.muted[message.conn] then
        server.reply = function() return true end
    end
    server.message = message
    getmetatable(server).execute(server, message.conn, message.argv, message.n)
    server.message, server.reply = nil, reply
    if what then
        self:log("server %d executes %s: %s", server.index + 1, what,
            self.say and as_text(message.answer))
        self:moment(server, format("after server %d has executed %s", server.index + 1, what),
            message.who)
    end
end

-- What a connection has held back arrives, in order.
local function flush(self, held)
    self.held[held.conn] = nil
    for _, message in ipairs(held) do
        execute(self, message)
    end
end

-- Of two that a client had held back for one server, on two connections, either may be first.
local function due(self, held)
    if self.held[held.conn] ~= held then
        return
    end
    local one = held[1]
    for _, other in pairs(self.held) do
        local two = other[1]
        if held.number < other.number and two.server == one.server and two.who == one.who
            and other.due_us <= held.due_us + MS and self.x:choose("order", ORDER,
                one.what .. " and " .. two.what .. " arrive") == 2 then
            flush(self, other)
            break
        end
    end
    flush(self, held)
end

-- Holds back a message and what follows it on its connection. us: for how long.
local function hold_back(self, message, us)
    self.number = self.number + 1
    local held = { message, conn = message.conn, due_us = C.sim_now() + us, number = self.number }
    self.held[message.conn] = held
    self.world.world:later(us, function() due(self, held) end)
end

-- When a late message arrives, in us from now.
local function delay_us(self, server, late)
    local entry = server:entry(self.key)
    local left_us = entry and entry.at and entry.at * MS - server:clock() or self.lease * SECOND
    return late == "moment" and MS or late == "time-out" and (self.TIMEOUT + 0.02) * SECOND
        or max(0, left_us + (late == "last" and -MS or 2 * MS))
end

local function travel(self, message)
    local server = message.server
    local to = message.what .. " to server " .. server.index + 1
    local path = PATHS[self.x:choose("path", PATHS, to)]
    if path ~= PATHS[1] then
        self:log("%s %s", to, path[1])
    end
    if path.late then
        hold_back(self, message, delay_us(self, server, path.late))
    elseif not path.lost then
        self.muted[message.conn] = self.muted[message.conn] or path.mute   -- later answers, too
        execute(self, message)
    end
    if path.breaks then
        C.sim_cut(self.process[message.who], server.index, 1, 0, 0)
    end
end

--- Takes the place of a server's execute().
function Stage:arrived(server, conn, argv, n)
    local held, who = self.held[conn], sender(self)
    local role = argv[1] == "INFO" and "life" or roles[argv[2] or ""]
    local may = self.open and who and self.world_of.roles[role]
    local message = { server = server, conn = conn, argv = argv, n = n, runs = server.runs,
        who = who, role = role, what = may and who .. "'s " .. role }
    if who and who == self.cut_off then
        return
    elseif held then
        insert(held, message)
    elseif may == "path" then
        travel(self, message)
    else
        execute(self, message)
    end
end

return Stage
