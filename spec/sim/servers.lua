--- The model servers of a schedule: how they start, die, forget, and what they execute.

local ffi = require "ffi"
local new_table = require "table.new"
local base = require "spec.sim.sim"
local redis = require "redlock.testing.redis"
local tokens = require "spec.sim.tokens"

local ipairs, huge, ffi_string = ipairs, math.huge, ffi.string
local MS = base.MS
local C, Sim, now = base.C, base.Sim, base.Sim.now

local _M = {}

local step, words
local known = {}             -- step.known -> the words of the command
local roles = {}             -- sha of a script -> what it is for: acquire, extend, ...
local REPEATED = { acquire = true, confirm = true, extend = true, extend_many = true, heal = true,
    release = true, import = true }

local function server_reply(conn, bytes)
    return C.sim_reply(conn, bytes, #bytes) ~= 0
end

local function clock(server)
    return server.offset + now() * server.rate
end

local function on_write(server, key, old, new)
    local self = server.sim
    local list = self.checks.write
    if server.values and server.values[key] then
        server.value = old and server.values[key][old.value] or server.values[key].last
    end
    for k = 1, list and #list or 0 do
        local text = list[k].on.write(self, server, key, old, new)
        if text then
            self:violated(list[k].name, text)
        end
    end
end

local function look_before(server, key, args)
    local checks = server.sim.checks.before
    for i = 1, checks and #checks or 0 do
        checks[i].on.before(server.sim, server, key, args)
    end
end

local function before_script(server, sha, keys, args)
    server.role, server.value, server.values = roles[sha], args[1], nil
    if server.role == "extend_many" then
        server.role, server.values = "extend", {}
        for i = 1, #args / 2 do          -- after steps of clocks one name may be in it twice
            local value, own = args[2 * i - 1], server.values[keys[i]] or {}
            own[value], own.last, server.values[keys[i]] = value, value, own
        end
        return
    end
    server.replaced = args[5] and args[4] or args[3]      -- by an import
    server.ends = args[#args] == "closed"                 -- whether a settle ends the hold
    look_before(server, keys[1], args)
end

-- Extensions that came as one: each yes is as if it had come alone, and a no says nothing.
-- They change no value, so what was before them can be looked at behind them.
local function on_many(server, keys, args, result)
    for i = 1, type(result) == "string" and #result or 0 do
        if result:byte(i) == 49 then
            local own = { args[2 * i - 1], args[2 * i] }
            look_before(server, keys[i], own)
            server.sim:on_script(server, "extend", keys[i], own, 1)
        end
    end
end

local function on_script(server, sha, keys, args, result)
    local role = roles[sha]
    if type(result) == "table" and result[1] == -2 ^ 31 then      -- scripts/marker/show.lua
        result = result[3]
    end
    if role == "extend_many" then
        on_many(server, keys, args, result)
    elseif role then
        server.sim:on_script(server, role, keys[1], args, result)
    end
end

function _M.new(self, i)
    local server = redis.new(clock, server_reply, i)
    server.sim = self
    server.index, server.lane = i - 1, "server " .. i
    server.state, server.cost = C.SIM_UP, 0
    server.offset = 1.7e15 + self:below(200 * MS)      -- as far as NTP lets them differ
    server.rate = 1 + (self:below(2001) - 1000) / 1000 * self.drift
    server.on_unsupported = function(_, text) self:violated("crash", text) end
    server.secret = self.prefix and self.prefix.secret
    server.lost_at = -1              -- when it forgot something
    server.shown = {}                -- to processes: since when it has shown a marker
    server.on_write, server.before_script, server.on_script = on_write, before_script, on_script
    self:log(server.lane, "up", "starts")
    return server
end

--- The true time at which a key of a server is gone; 0: it is not there.
function Sim.gone_at(_, server, key)
    local entry = server:entry(key)
    if not entry then
        return 0
    end
    return entry.at and ((entry.at + 1) * MS - server.offset) / server.rate or huge
end

--- state: C.SIM_UP, SIM_FROZEN, SIM_DOWN; cost: microseconds per command
function Sim.set_server(_, server, state, cost)
    server.state, server.cost = state or server.state, cost or server.cost
    C.sim_server(server.index, server.state, server.cost)
end

--- Steps its clock. What all others have of a hold lasts as long as before.
function Sim:step_server(server, ms)
    server.offset, server.stepped_at = server.offset + ms * MS, now()
    self.stepped_us = (self.stepped_us or 0) + math.max(0, -ms) * MS
    self.several_clocks = self.several_clocks or (self.stepped or server) ~= server
    self.stepped = server
    for _, hold in ipairs(self.held) do
        hold.outlives = true
        for _, other in ipairs(self.servers) do
            local entry = other:entry(hold.name)
            hold.outlives = hold.outlives and (other == server
                or entry ~= nil and entry.value == hold.value)
        end
    end
    self:log(server.lane, "clock", "its clock is stepped by " .. ms .. " ms")
end

--- Its process dies, and comes back later with what `keep` has; nil: what it had.
function Sim:restart_server(server, keep, after_us)
    if server.state == C.SIM_DOWN then
        return
    end
    self:log(server.lane, "down", "crashes")
    self:set_server(server, C.SIM_DOWN)
    self:later(after_us, function()
        self:start_server(server, keep)
    end)
end

--- It has lost its memory, but for what `keep` has. Before its first vote there was nothing to
-- forget.
function Sim.forgot(_, server)
    if server.voted then
        server.lost_at = now()
    end
end

--- A copy of a server's data, as on a disk.
function Sim.snapshot(_, server)
    local copy = {}
    for key, entry in pairs(server.db) do
        copy[key] = { value = entry.value, at = entry.at }
    end
    return copy
end

--- Within a second it goes on with what its replica has heard of until now, in the same life.
function Sim:fail_over_and_back(server)
    local replica = self:snapshot(server)
    self:later(self:below(base.SECOND), function()
        if server.state == C.SIM_UP and not self.calm_at then
            self:forgot(server, replica)
            server:live_on(replica)
            server.went_back_at = now()
            self:log(server.lane, "note", "was failed over, and back")
        end
    end)
end

function Sim:start_server(server, keep)
    if server.state == C.SIM_DOWN and not server.stays_down then
        if keep then
            self:forgot(server, keep)
        end
        server:restart(keep or server.db)
        self:set_server(server, C.SIM_UP)
        if self.calm_at and server == self.misled then
            tokens.delete_floors(server)     -- it had saved them
        end
        self:log(server.lane, "up", keep and "is back, with what it had saved" or "is back")
    end
end

-- ---- commands --------------------------------------------------------------------

local function read_words()
    local n = step.argc
    local argv = new_table(n + 1, 2)
    for i = 1, n do
        argv[i] = ffi_string(words[i - 1].data, words[i - 1].len)
    end
    return argv
end

--- What was executed may be executed once more, later.
local function may_repeat(self, server, argv)
    local attempt = self.attempts[argv[4 + argv[3]]]
    local once = attempt and attempt.given and attempt.from      -- of an export: sent once
    if self:below(1000) < self.repeats and not once then
        local runs = server.runs
        self:later(self:below(self.repeats_us), function()
            if server.runs == runs then
                self:execute_again(server, argv)
            end
        end)
    end
end

-- Each process reads it in its handshake: whether there was one.
local MARKER = "redlock:{server}:marker"

local FORBIDDEN = "NOPERM this user has no permissions to access one of the keys"

-- Executes what a process sent; some scripts may not be for its user.
local function execute(self, server, argv, n)
    local forbidden = self.processes[step.process + 1].forbidden
    local refuses = server.refuses
    if forbidden and forbidden == roles[argv[2]] then
        server.refuses = refuses or FORBIDDEN
    end
    server:execute(step.conn, argv, n)
    server.refuses = refuses
end

--- A server has got a command: step has it.
function _M.on_command(self)
    local number = step.known
    local argv = known[number]
    if number < 0 then
        argv = read_words()
        known[-number] = argv
    end
    local server = self.servers[step.server + 1]
    if argv[2] == MARKER and not self.twin then
        server.shown[step.process] = server.db[MARKER] ~= nil
            and (server.shown[step.process] or now()) or nil
    end
    local refused = argv[1] == "SUBSCRIBE" and not self.config.subscribes
    execute(self, server, argv, refused and 1 or #argv)      -- of one word: an error
    if self.repeats and argv[1] == "EVALSHA" and REPEATED[roles[argv[2]]]
        and server.scripts[argv[2]] then
        self:apart("executed twice", may_repeat, self, server, argv)
    end
end

--- The words of the command that a server executes, for execute_again().
function Sim.this_command()
    return known[math.abs(step.known)]
end

--- Executes a command once more, for nobody.
function Sim.execute_again(_, server, argv)
    if server.state == C.SIM_UP then
        server.repeats = true
        server:execute(0, argv, #argv)
        server.repeats = false
    end
end

-- ---- loading ---------------------------------------------------------------------

-- Notes the role of a script, by itself and as the guard wraps it. A text that has a role already
-- keeps it.
local function know(script, role)
    local hex = require("redlock.testing.sha1").hex
    local guard = require "redlock.servers.restart_guard"
    for _, text in ipairs { script, guard.wrap(script), guard.wrap_answer(script),
        guard.wrap_answer(script, true) } do
        local sha = hex(text)
        roles[sha] = roles[sha] or role
    end
end

local function know_scripts()
    local own = require("redlock.runtime.script_text").own
    local plain, rw = require "redlock.kinds.plain_lock", require "redlock.kinds.read_write_lock"
    for _, prim in ipairs { plain, require "redlock.kinds.fenced_lock",
        require "redlock.kinds.fenced_write_lock", rw.reading, rw.writing,
        require("redlock.kinds.multi_lock").primitive, require("redlock.kinds.semaphore").permit,
        require "redlock.kinds.fair_lock", require("redlock.kinds.latch").primitive } do
        for _, role in ipairs { "acquire", "confirm", "extend", "heal", "release", "import",
            "settle", "arrive", "stand", "force" } do
            if prim[role .. "_script"] then
                know(prim[role .. "_script"], role)
            end
        end
    end
    know(require("redlock.kinds.semaphore").permit.open_script, "force")
    know(plain.extend_many, "extend_many")
    know(own "fenced.tell", "tell")
    know(own "marker.set", "mark")
    roles[own "marker.set"] = "mark"         -- it is sent as a text
end

function _M.load()
    step = C.sim_record()
    words = step.argv
    know_scripts()
end

return _M
