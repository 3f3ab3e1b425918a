--- Who holds in a small world, and what went wrong. Methods of a stage.

local library = require "redlock.testing.library"
local sha1 = require "redlock.testing.sha1"
local base_step = require "spec.sim.base_step"
local marker = require "spec.sim.marker_step"

local format, insert, remove = string.format, table.insert, table.remove
local ipairs, pairs, tonumber, type = ipairs, pairs, tonumber, type

local C = library.core()
local SECOND, MS = 1e6, 1e3
local GUARDED = 3            -- RL_VOTE_GUARDED; what is more is it and a token
local SHOWN = -2 ^ 31        -- {SHOWN, marker, answer}: scripts/marker/show.lua
local ARRIVES = { look = true, arrive = true }       -- the same script, with arrivals
local MARKER, FLOOR = "redlock:{server}:marker", base_step.KEY

local Stage = {}

function Stage:log(...)
    if self.say then
        self.say(format("%10.4f  ", C.sim_now() / SECOND) .. format(...))
    end
end

--- It went wrong. The first fault counts.
function Stage:wrong(...)
    local text = format(...)
    if not self.fault then
        self.fault = text
        self:log("WRONG: %s", text)
    end
end

-- ---- holds -----------------------------------------------------------------------------

--- A client holds, and must be alone while its hold is valid, until gone().
-- @param lock   what says how long it is valid
-- @param token  or nil
-- @return the hold
function Stage:got(who, lock, token)
    self:log("%s holds, for %.3f s%s", who, lock:remaining(), token and ", token " .. token
        or "")
    local hold = { who = who, lock = lock, value = self.asked[who], no = {} }
    if lock:remaining() <= 0 then
        self:wrong("%s gets what has ended", who)
    end
    insert(self.holds, hold)
    self:look()
    if token then
        self:count(who, token)
    end
    return hold
end

-- What a server has counted to, and in which memory (with "=" after it: it is lent, and no
-- counter); nil: nothing.
local function counted(server)
    local counter = server:entry "redlock:{x}:fence"
    local run, n = (counter and counter.value or ""):match "^(%x%x%x%x%x%x%x%x=?)(%d+)"
    return tonumber(n), run
end

-- A token is larger than those before it, and a majority has counted to it, and not further.
function Stage:count(who, token)
    local n = 0
    for _, server in ipairs(self.world.world.servers) do
        n = n + (counted(server) == token and 1 or self.lost[server] and 1 or 0)
    end
    if token <= (self.token or 0) then
        self:wrong("%s got token %d after token %d", who, token, self.token)
    elseif n < 2 then
        self:wrong("%s got token %d, to which %d of 3 servers have counted", who, token, n)
    end
    self.token = token
end

function Stage:gone(hold)
    for i, one in ipairs(self.holds) do
        if one == hold then
            remove(self.holds, i)
            self:log("%s releases", hold.who)
        end
    end
end

--- One that is kept is told of its loss, and why.
function Stage:told(hold, reason)
    hold.told = true
    self:log("%s is told of its loss: %s", hold.who, reason)
    local others = 0
    for who in pairs(self.asked) do
        others = others + (who ~= hold.who and 1 or 0)
    end
    if reason == "taken" and others == 0 then
        self:wrong("%s is told that its hold was taken, and nobody else has asked", hold.who)
    end
end

--- At most one of the holds is valid; one that is kept was told of its loss before it ends, and
-- soon after a majority has said no.
function Stage:look()
    local valid
    for _, hold in ipairs(self.holds) do
        local left = hold.lock:remaining()
        if left > 0 then
            hold.until_us = C.sim_now() + left * SECOND
            if valid and valid.who ~= self.forced and hold.who ~= self.forced then
                self:wrong("%s and %s hold, for %.3f s and %.3f s more", valid.who, hold.who,
                    valid.lock:remaining(), hold.lock:remaining())
            end
            valid = hold
        elseif hold.kept and not (hold.told or hold.deaf) then
            self:wrong("%s was not told of its loss", hold.who)
        end
        if hold.no_since and left > 0 and C.sim_now() > hold.no_since + 1.2 * SECOND
            and self.cut_off ~= hold.who and not self.still[hold.who] then
            self:wrong("%s still holds, and a majority said no 1.2 s ago", hold.who)
        end
    end
    for who, process in pairs(self.process) do
        if C.sim_owes_in_vain(process) ~= 0 then
            self:wrong("%s owes a release to a server where nothing was taken", who)
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

-- ---- scripts ---------------------------------------------------------------------------

-- What nobody may do to another one's key.
local function harm(role, args, old, new)
    local value = args[1]
    if role == "settle" then     -- it comes again where its answer was lost, and finds its label
        return old and old.value:sub(1, 40) ~= value:sub(1, 40)
    elseif role == "release" or role == "extend" then
        return old and old.value ~= value or role == "extend" and (not new
            or new.value ~= value or new.at < old.at)
    elseif role == "acquire" or role == "heal" then
        return old and (not new or old.value ~= value or new.at < old.at)
    elseif role == "force" then
        return not args[#args]:find(sha1.hex(old.value):sub(1, 20), 1, true)
    elseif role == "import" then
        return not old or new.value ~= value or new.at < old.at
    end
end

-- Who was told that it holds this value, and nothing else since.
local function holder_of(self, value)
    for _, hold in ipairs(self.holds) do
        if hold.value == value and hold.until_us > C.sim_now() and not hold.told then
            return hold
        end
    end
end

local function on_write(self, server, key, old, new)
    local message = server.message or {}
    if key == self.key then
        self:watch_end(server, new)
        if message.args and not (old and type(old.value) ~= "string")
            and not (new and type(new.value) ~= "string")
            and harm(message.role, message.args, old, new) then
            self:wrong("%s's %s changes a key on server %d that is not its own",
                message.who or "somebody", message.role, server.index + 1)
        end
    elseif key == MARKER and new then
        local why = marker.wrong(old and old.value, new.value)
        if why then
            self:wrong("on server %d %s", server.index + 1, why)
        end
    end
end

-- What was so before the server executes a script.
local function before_script(self, server, args)
    local message = server.message
    message.args, message.count, message.run = args, counted(server)
    if message.role == "acquire" and message.who then
        self.asked[message.who] = args[1]
    elseif message.role == "release" then
        local hold = holder_of(self, args[1])
        if hold then
            self:wrong("server %d lets go what %s has been told it has for %.3f s more",
                server.index + 1, hold.who, (hold.until_us - C.sim_now()) / SECOND)
        end
    end
end

-- A majority that said no to an extension: since when.
local function note_no(self, server, vote)
    local hold = holder_of(self, server.message.args[1])
    if hold and hold.kept then
        hold.no[server] = vote == 0 or vote == -1 or nil
        local n = 0
        for _ in pairs(hold.no) do
            n = n + 1
        end
        hold.no_since = n >= 2 and (hold.no_since or C.sim_now()) or nil
    end
end

--- The floor that a server was taught; nil: none.
function Stage.base_of(db)
    return db[FLOOR] and db[FLOOR].value.base
end

-- A server extends the slot of a semaphore that a majority gave.
local function judge_slot(self, server, args)
    local who = server:entry "redlock:{x}:who"
    local slot = who and who.value[args[1]]
    if slot and tonumber(slot) ~= tonumber(args[3]) then
        self:wrong("server %d extends slot %s, and a majority gave slot %s", server.index + 1, slot,
            args[3])
    end
end

-- A server that forgot gives no vote, and gets no floor, before its quarantine has ended.
local function judge_quarantine(self, server, vote, taught)
    local lost_us, message = self.lost[server], server.message
    if not lost_us or C.sim_now() >= lost_us + (self.lease * 1.01 + 1) * SECOND - 5 * MS then
        return
    end
    local asks = message.role == "acquire" and message.argv[message.n] ~= ""      -- else to heal
    if asks and (vote == 1 or vote == 2 or vote > GUARDED)
        or ARRIVES[message.role] and #message.args > 5 and vote == 1 then
        self:wrong("server %d votes in its quarantine", server.index + 1)
    elseif taught then
        self:wrong("server %d gets a floor in its quarantine", server.index + 1)
    end
end

local function on_script(self, server, result)
    local message, count, run = server.message, counted(server)
    local said = type(result) == "table" and result[1] == SHOWN and result[3] or result
    local vote = type(said) == "table" and said[1] or said
    local base, why = self.base_of(server.db), nil
    local taught = base and base ~= server.base
    message.answer = result
    if count and #run == 8 and run == message.run and count < message.count then
        self:wrong("server %d counts back from %.0f to %.0f", server.index + 1, message.count,
            count)
    end
    judge_quarantine(self, server, vote, taught)
    if taught then
        why = base_step.wrong(self.world.world.servers, server, base, C.sim_now(),
            2 * self.lease * SECOND)
    elseif message.role == "floors" then
        why = base_step.told(server, C.sim_now(), vote, result[2])
    elseif message.role == "extend" then
        note_no(self, server, vote)
        judge_slot(self, server, message.args)
    end
    if why then
        self:wrong("server %d %s", server.index + 1, why)
    end
    server.base = base
end

--- Judges what each script does.
function Stage:watch(server)
    server.on_write = function(_, ...) on_write(self, server, ...) end
    server.before_script = function(_, _, _, args) before_script(self, server, args) end
    server.on_script = function(_, _, _, _, result) on_script(self, server, result) end
end

return Stage
