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

local roles = {}             -- by text and by SHA-1
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
    if not roles.heard then
        roles.heard = "heard"
        hear(part "redlock.runtime.script_text")
        local own = part("redlock.runtime.script_text").own
        know("mark", own "marker.set")
        know("floors", own "fenced.tell")
        know("force", part("redlock.kinds.plain_lock").force_script)     -- asked of each alone
        roles["redlock:{server}:marker"] = "marker"
        local lock = part "redlock.lock.lock"
        local hold_of = lock.hold_of
        function lock.hold_of(view)
            if present and present.world_of.pauses then
                present:pause(present.names[view.client], "looks at its hold")
            end
            return hold_of(view)
        end
    end
    return enter(world, part)
end

-- Between an answer and who reads it.
function host.wait(round)
    local waits = C.rl_round_outcome(round) == 0
    local outcome = wait(round)
    if waits and present then
        present:pause(present:sender(), "reads an answer")
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
    elseif answer.err then
        return answer.err
    end
    local words = {}
    for i, one in ipairs(answer) do
        words[i] = as_text(one)
    end
    return "{" .. concat(words, ", ") .. "}"
end

local function execute(self, server, conn, argv, n, what, who)
    local reply = server.reply
    self.acting = who
    if self.muted[conn] then
        server.reply = function() return true end
    end
    server.last_word, server.answer = argv[n], nil
    getmetatable(server).execute(server, conn, argv, n)
    server.reply = reply
    if what then
        self:log("server %d executes %s: %s", server.index + 1, what,
            self.say and as_text(server.answer))
        self:moment(server, "after server %d has executed %s", server.index + 1, what)
    end
    self.acting = nil
end

-- What a connection has held back arrives, in order; nothing does at a process that has died.
local function flush(self, held)
    self.held[held.conn] = nil
    for _, one in ipairs(held) do
        if held.server.runs == held.runs then
            execute(self, held.server, held.conn, one.argv, one.n, one.what, held.who)
        end
    end
end

-- Of two that a client had held back for one server, on two connections, either may be first.
local function due(self, held)
    if self.held[held.conn] ~= held then
        return
    end
    for _, other in pairs(self.held) do
        if other ~= held and other.server == held.server and other.who == held.who
            and other.due_us <= held.due_us + MS and held.number < other.number
            and self.x:choose("order", ORDER, held[1].what .. " and " .. other[1].what
                .. " arrive") == 2 then
            flush(self, other)
            break
        end
    end
    flush(self, held)
end

-- Holds back a request and what follows it on its connection, until so many us from now.
local function hold_back(self, server, conn, us)
    self.number = self.number + 1
    local held = { server = server, conn = conn, runs = server.runs, who = self:sender(),
        due_us = C.sim_now() + us, number = self.number }
    self.held[conn] = held
    self.world.world:later(us, function() due(self, held) end)
    return held
end

-- When a late message arrives, in us from now.
local function delay_us(self, server, late)
    local entry = server:entry(self.key)
    local left_us = entry and entry.at and entry.at * MS - server:clock() or self.lease * SECOND
    return late == "moment" and MS or late == "time-out" and (self.TIMEOUT + 0.02) * SECOND
        or max(0, left_us + (late == "last" and -MS or 2 * MS))
end

local function travel(self, server, conn, argv, n, what)
    local to = what .. " to server " .. server.index + 1
    local path = PATHS[self.x:choose("path", PATHS, to)]
    if path ~= PATHS[1] then
        self:log("%s %s", to, path[1])
    end
    if path.late then
        insert(hold_back(self, server, conn, delay_us(self, server, path.late)),
            { argv = argv, n = n, what = what })
    elseif not path.lost then
        self.muted[conn] = self.muted[conn] or path.mute     -- later answers are lost, too
        execute(self, server, conn, argv, n, what)
    end
    if path.breaks then
        C.sim_cut(C.sim_record().process, server.index, 1, 0, 0)
    end
end

--- The name of the client whose message arrives; nil: of none that has a name.
function Stage:sender()
    return self.acting or self.names[C.sim_record().process]
end

--- What a script is for, by its text or SHA-1.
function Stage.role_of(_, script)
    return roles[script or ""]
end

--- Takes the place of a server's execute().
function Stage:arrived(server, conn, argv, n)
    local held, who = self.held[conn], self:sender()
    local role = argv[1] == "INFO" and "life" or self:role_of(argv[2])
    local may = self.open and who and self.world_of.roles[role]
    local what = may and who .. "'s " .. role
    if who and who == self.cut_off then
        return
    elseif held then
        insert(held, { argv = argv, n = n, what = what })
    elseif may == "path" then
        travel(self, server, conn, argv, n, what)
    else
        execute(self, server, conn, argv, n, what)
    end
end

return Stage
