--- Clients: the connections to one set of servers, and everything held through them.

local ffi = require "ffi"
local bit = require "bit"
local card = require "redlock.runtime.card"
local interrupt = require "redlock.runtime.interrupt"
local validate = require "redlock.runtime.validate"
local credentials = require "redlock.servers.credentials"
local errors = require "redlock.runtime.errors"
local events = require "redlock.client.events"
local family = require "redlock.kinds.family"
local finalizers = require "redlock.runtime.finalizers"
local handover = require "redlock.lock.handover"
local tasks = require "redlock.runtime.tasks"
local quorum = require("redlock.runtime.majority").quorum
local restart_guard = require "redlock.servers.restart_guard"
local health = require "redlock.servers.health"
local holds = require "redlock.lock.holds"
local lazy = require "redlock.runtime.lazy"
local lately = require "redlock.runtime.lately"
local queues = require "redlock.lock.queues"
local inspection = require "redlock.client.inspection"
local lock = require "redlock.lock.lock"
local options = require "redlock.servers.options"
local plain_host = require "redlock.host.plain"
local plain_lock = require "redlock.kinds.plain_lock"
local primitive = require "redlock.kinds.primitive"
local happenings = require "redlock.runtime.happenings"
local rounds = require "redlock.runtime.rounds"
require "redlock.lock.asking"
require "redlock.lock.background"

local connecting = lazy.loader "redlock.servers.connecting"
local fenced_lock = lazy.loader "redlock.kinds.fenced_lock"
local floors = lazy.loader "redlock.servers.floors"
local sequencer = lazy.loader "redlock.kinds.sequencer"
local transfer = lazy.loader "redlock.kinds.transfer"
local trial = lazy.loader "redlock.servers.trial"
local using = lazy.loader "redlock.client.using"

local pcall, pairs, ipairs = pcall, pairs, ipairs
local ngx = rawget(_G, "ngx")
local nginx = ngx and ngx.get_phase and ngx.config
local setmetatable, tonumber, tostring, type = setmetatable, tonumber, tostring, type

local _M = {}

local Client, methods = {}, {}
Client.__index = Client

local LINGER = 0.05          -- LINGER_MS of the core, which goes on with it
local IMPORT = { owner = true, primitive = true }
local INIT = { force = true }

-- nginx's when this is nginx, else one that blocks.
local function default_host()
    return require(nginx and "redlock.host.nginx" or "redlock.host.plain")
end

-- The Lua state closes. Nothing waits any more, so no event loop is asked for anything; the core
-- has a finalizer of its own.
local function vanish(self, is_first)
    if is_first then
        self.holds:orphan_all()
    end
    self.closed, self.core, self.host = true, nil, plain_host
    self.holds = holds.new(self)
end

--- See redlock.new.
function _M.new(opts)
    opts = options.new(opts)
    lazy.load_all()
    local self = setmetatable({
        options = opts,
        size = #opts.nodes,      -- how many servers there are
        quorum = quorum(#opts.nodes),
        host = opts.host or default_host(),
        label = card.label(opts.label),
        counters = { acquired = 0, contended = 0, failed = 0, released = 0, handed_over = 0,
            lost = 0, overloaded = 0 },
        queues = {},             -- kind:name -> who waits for it in this process
        waiting = 0,             -- how many are in them
        yield_until = lately.new(handover.YIELD_MAX), -- kind:name that others are to have first
        used = false,            -- whether it has tried to take a lock
        unseeded = {},           -- buckets of fenced locks whose floors have to be asked for
        closed = false,
    }, Client)
    self.host.accept(opts)
    self.guarded = restart_guard.is_on(self.options)
    self.holds = holds.new(self)
    self.tasks = tasks.new(self)
    self.events = events.new(self)
    self.credentials = credentials.new(self)
    self.meter = opts.metrics and opts.metrics:attach(self) or nil
    finalizers.join(self, vanish)
    rounds.load()                -- now, as descriptors may run out later
    return self
end

-- ---- the core --------------------------------------------------------------------

-- The structures refer to strings of the client's options and credentials.
local function core_nodes(self)
    local nodes = self.options.nodes
    local list = ffi.new("rl_node_options[?]", #nodes)
    for i, node in ipairs(nodes) do
        local n = list[i - 1]
        n.label = node.label
        n.host, n.path, n.port, n.db = node.host, node.path, node.port or 0, node.db
        n.tls, n.server_name = node.tls and 1 or 0, node.server_name
        n.password_file = node.password_file
        n.password, n.user = self.credentials:of(i)
    end
    return list
end

-- What a value of an option is to the core (see options.rows).
local AS = {
    ms = rounds.to_ms,
    number = function(n) return n end,
    ppm = function(share) return math.ceil(share * 1e6) end,
    flag = function(on) return on and 1 or 0 end,
    text = function(text) return text or nil end,
    signals = function(list)
        local mask = 0
        for _, signal in pairs(list or {}) do
            mask = bit.bor(mask, rounds.load()["RL_SIGNAL_" .. signal])
        end
        return mask
    end,
}

local function core_options(o)
    local settings = ffi.new("rl_options")
    for _, row in ipairs(options.rows) do
        if row.c then
            settings[row.c] = AS[row.as](o[row.name])
        end
    end
    restart_guard.configure(settings, o)
    return settings
end

-- Everything the core is opened with, as a string: clients with the same share one core.
local function share_key(self)
    local o, parts = self.options, {}
    local function add(prefix, t)
        local names = {}
        for name, value in pairs(t) do
            if type(value) ~= "table" and type(value) ~= "function" and name ~= "on_event"
                and name ~= "label" then
                names[#names + 1] = name
            end
        end
        table.sort(names)
        for _, name in ipairs(names) do
            parts[#parts + 1] = ("%s%s=%q"):format(prefix, name, tostring(t[name]))
        end
    end
    add("", o)
    for i, node in ipairs(o.nodes) do
        add(i .. ".", node)
        local password, user = self.credentials:of(i)
        add(i .. ".", { password = password, user = user })
    end
    return table.concat(parts, "\n")
end

-- Apart from Client:open(), as LuaJIT compiles no function that makes one.
local function open(self)
    rounds.load()
    local ok, err = self.credentials:begin()
    if not ok or self.closed or self.core then       -- meanwhile
        return ok and not self.closed or nil, err
    end
    local core, why = self.host.open(self, core_options(self.options), core_nodes(self),
        function() return share_key(self) end)
    if not core then
        return nil, errors.new("config", why)
    end
    self.core = core
    if self.meter then
        rounds.load().rl_take_times(core)
    end
    self.registered = {}
    self.holds.losses = happenings.losses(self)      -- of others who share it
    return true
end

--- Opens the core at first use.
-- @return true; nil when the client is closed; or nil and a `config` error: a certificate
--   or a password is not to be had
function methods:open()
    if self.closed then      -- also while close() waits
        return nil
    end
    if self.core then
        return true
    end
    return open(self)
end

--- The script numbers of a primitive in this client's core.
function methods:scripts(prim)
    local ids = self.registered[prim]
    if not ids then
        ids = prim:register(self, rounds.load())
        self.registered[prim] = ids
    end
    return ids
end

--- Lets go of all that an owner held who is gone. Waits for nothing.
function methods:bury(owner)
    for id, hold in pairs(self.holds:of(owner)) do
        self.holds:remove(owner, id)
        rounds.orphan(hold.lease)
        queues.wake_first(self.queues[id])
    end
end

-- ---- public ----------------------------------------------------------------------

--- A plain lock: exclusive, re-entrant for its owner. No I/O.
-- @param name  1 to 65536 bytes, any bytes
-- @param opts  owner: any value but nil; whoever gives the same one is the same owner.
--   Default: the running coroutine.
-- @return a lock object (see lock.lua)
function methods:getLock(name, opts)
    return lock.new(self, plain_lock, name, opts)
end

--- A lock whose holds have fencing tokens; otherwise as getLock. Its lock() and tryLock()
-- return true and the token.
-- @return a lock object, with token(), stillMine() and sequencer() (see fenced_lock.lua)
function methods:getFencedLock(name, opts)
    return lock.new(self, fenced_lock(), name, opts)
end

--- An object of a primitive of your own, with the methods of a lock. No I/O.
-- @param prim  from redlock.primitive
-- @param name  as for getLock
-- @param opts  as for getLock
function methods:get(prim, name, opts)
    if not primitive.is_primitive(prim) then
        validate.bad("primitive", "one made by redlock.primitive is needed, not " .. type(prim))
    end
    return lock.new(self, prim, name, opts)
end

--- Takes over a hold that another process gave away with lock:export().
-- @param text   a transfer, as export() returned
-- @param opts   owner, as for getLock; primitive: of a lock that is neither plain nor fenced
-- @return the lock, held by the current owner and kept by the watchdog; or nil and an
--   error: lost (it ended on the way), no_quorum, config (not a transfer for this client), not_held
--   (in a child that was forked meanwhile: the parent has it), closed
function methods:import(text, opts)
    opts = validate.options("options", opts, IMPORT)
    if type(text) ~= "string" then
        validate.bad("transfer", "what lock:export() returned is needed, not " .. type(text))
    end
    local prim = opts.primitive
    local prims
    if prim ~= nil then
        if not primitive.is_primitive(prim) then
            validate.bad("primitive", "one made by redlock.primitive is needed, not " .. type(prim))
        end
        prims = { [prim.name] = prim }
    else
        prims = family.kinds()
        prims[plain_lock.name] = plain_lock
    end
    return transfer().import(self, prims, text, { owner = opts.owner })
end

--- See kinds/transfer.lua.
function lock.methods:export()
    return transfer().export(self)
end

--- Asks the servers whether the hold that a sequencer stands for is still current: the lock
-- is held, and no larger token has been issued.
-- @param text  what lock:sequencer() returned, anywhere
-- @return true; false: it is over; or nil and an error: no_quorum, config (not a
--   sequencer), closed
function methods:checkSequencer(text)
    local seq, later = sequencer().parse(text)
    if not seq or lock.is_reserved(self, seq.name) then
        return nil, errors.new("config", later and "a sequencer of another version of the library"
            or "a text that lock:sequencer() did not make")
    end
    local fenced = fenced_lock()
    return fenced.is_current(lock.new(self, fenced, seq.name), seq.token)
end

--- Runs fn(lock) while holding the lock `name`, and releases it whatever happens.
-- It belongs to the running coroutine, also in nginx, whose other locks are the request's.
-- @param name  as for getLock; a list of names: all of them, as for getMultiLock
-- @param opts  wait: seconds, default: as long as it takes; lease: seconds; owner; kind: "plain"
--   (default), "fenced", "read", "write", "fair", "multi", "permit"; fenced: true for a fenced
--   lock; permits: how many there are, for a permit
-- @param fn    what is to be done under the lock
-- @return true and fn's results, also when fn has let it go itself; false and fn's results
--   when the lease was lost before fn was done; nil and an error when fn did not run. An
--   error in fn is raised again after the release.
function methods:using(name, opts, fn)
    return using().using(self, name, opts, fn)
end

--- Releases everything that the current owner holds through this client, however often it was
-- entered; in nginx also what using() holds still for coroutines of the request that were
-- killed. Where the caller cannot wait (nginx's log phase) the releases are sent.
-- @return true; or nil and the first error of an unlock(), after all the others; closed
function methods:releaseAll()
    if self.closed then
        return nil, errors.new("closed", "releaseAll")
    end
    local first
    for _, owner in ipairs(self.host.owners and self.host.owners() or { self.host.owner() }) do
        for _, hold in ipairs(self.holds:held_by(owner)) do
            local l = lock.new(self, hold.primitive, hold.name, { owner = owner })
            if self.holds:get(owner, l.id) == hold then      -- still
                hold.count, hold.reads = 1, nil      -- a writer who reads as well
                local ok, err = l:unlock()
                first = first or not ok and err
            end
        end
    end
    if first then
        return nil, first
    end
    return true
end

-- Opens it for a call that waits for the servers; nil and an error: phase, closed, config.
local function open_to_wait(self, what)
    if not self.host.can_wait() then
        return nil, errors.new("phase", what)
    end
    local ok, err = self:open()
    return ok, err or errors.new("closed", what)
end

--- Connects, and waits until a majority of the servers may vote, and each other one has
-- connected or failed once. A lock can be taken then, without a wait for connections.
-- @param seconds  how long it may take; default: the option connect_timeout. 0: servers that are
--   connected are asked, for at most the option timeout; the others are not waited for
-- @return true; or nil and an error: no_quorum (why each server has no vote), closed, config (as
--   Client:open), phase (the caller cannot wait). Servers may be tried again; nothing is held.
function methods:connect(seconds)
    seconds = seconds == nil and self.options.connect_timeout
        or validate.seconds("seconds", seconds, 0)
    local ok, err = open_to_wait(self, "connect")
    if not ok then
        return nil, err
    end
    return connecting().connect(self, seconds)
end

-- What is found out beside what servers tell of themselves: see health.check().
local function look_closer(client, rows, found)
    local known = floors().look(client, rows, found)
    trial().count_strangers(client, trial().try(client, rows, found), found)
    return known
end

--- Asks every server how it is, and tries to take and release a lock of its own there.
-- @return a list of rows, one per node: node, reachable, ready (connected, and through the
--   handshake), code and message (why it is not), version, role, run_id, uptime (by its own
--   word), round_trip, clock_offset (its wall clock minus ours; clock_error: give or take),
--   persistence ("aof", "rdb", "none seen": as far as INFO tells), eviction, maxmemory, guard
--   ("admitted", "guarded" (for guard_left seconds, if it is up), "unverified", "disagrees",
--   (why: a text), "off", "unknown": marker_code says why the marker cannot
--   be read), lost (why it was lost, or could not be connected, last; nil when it is ready), twin
--   (the same server has voted under another address, though it does not say who it is),
--   suspect_left (seconds without votes after a step of its clock), floors (how many of the 1024
--   floors of fencing tokens it knows; nil: its user may not look), verdict ("ok", "warning",
--   "error": it does not vote), findings ({ kind, verdict, message }) and remedy (the same as
--   text); seconds throughout. The list has verdict ("error": no majority votes), voting,
--   quorum, and findings about the whole. tostring() of it is for people.
--   Or nil and an error: closed, config (as Client:open), phase (the caller cannot wait).
function methods:check()
    local ok, err = open_to_wait(self, "check")
    if not ok then
        return nil, err
    end
    return health.check(self, look_closer)
end

--- Admits the servers of a brand-new cluster at once, which otherwise happens when they were
-- seen for max_lease * 1.01 + 1 s. Only when nobody can hold a lock: what a server may have
-- forgotten is not waited for. So without force all nodes must answer, and none may be
-- admitted already (unless all are: then nothing is done).
-- @param opts  force: admits every server that answers, whatever the others say, also one
--   that was set up with another max_lease; those that do not answer are left out, and will
--   go through their quarantine
-- @return true: all nodes (with force: a majority, and all that answer) are admitted; or nil
--   and an error: config (not a new cluster: the message says why; or as Client:open),
--   no_quorum, closed, phase (the caller cannot wait). With the guard off there is nothing to
--   admit: true when a majority answers.
function methods:init(opts)
    opts = validate.options("options", opts, INIT)
    local force = validate.flag("force", opts.force)
    local ok, err = open_to_wait(self, "init")
    if not ok then
        return nil, err
    end
    return restart_guard.init(self, force)
end

--- Counters since the client was made.
-- @return { acquired, contended (calls that did not get it at the first attempt), failed,
--   released, handed_over (got from another owner of this process), lost, overloaded (calls
--   that failed because max_waiting waited already), waiting (how many do now), owed (leases
--   whose clean-up not all servers have confirmed), forgone (whose clean-up was not pursued:
--   more than 131072 at once; they end with their time), renewals (by the watchdog), nodes =
--   { { node, ready, code, requests, replies, errors, timeouts, connects, disconnects,
--   in_flight, owed }, ... } }; owed, forgone, renewals: of all clients that share its
--   connections; nil before the first use
function methods:stats()
    local stats = { waiting = self.waiting, nodes = {} }
    for name, value in pairs(self.counters) do
        stats[name] = value
    end
    if not self.core then
        return stats
    end
    local C = rounds.load()
    stats.owed, stats.forgone = tonumber(C.rl_owed(self.core)), tonumber(C.rl_forgone(self.core))
    stats.renewals = tonumber(C.rl_renewals(self.core))
    local s = ffi.new("rl_node_stats")
    for i = 1, self.size do
        C.rl_node_get_stats(self.core, i - 1, s)
        stats.nodes[i] = {
            node = self.options.nodes[i].label,
            ready = s.ready ~= 0,
            code = ffi.string(C.rl_code_name(s.code)),
            requests = tonumber(s.requests),
            replies = tonumber(s.replies),
            errors = tonumber(s.errors),
            timeouts = tonumber(s.timeouts),
            connects = tonumber(s.connects),
            disconnects = tonumber(s.disconnects),
            in_flight = s.in_flight,
            owed = s.owed,
        }
    end
    return stats
end

--- Releases everything that is held through this client, and closes its connections.
-- Later calls return nil and a `closed` error. Never fails; may be called again. Waits for
-- servers that answer, 50 ms at most: a lock that is not released by then ends with its time.
-- @return true
function methods:close()
    if self.closed then
        return true
    end
    self.tasks:close()
    self.closed = true
    for _, queue in pairs(self.queues) do
        queues.wake_all(queue)
    end
    local pending = {}
    local ended = self.holds
    local list = ended:all()
    self.holds = holds.new(self)
    for i, hold in ipairs(list) do
        pending[i] = rounds.release(hold.lease)
    end
    for _, hold in ipairs(list) do       -- who is told of it finds nothing to let go any more
        ended:lose(hold, "closed")
    end
    local waited, why = true, nil
    if self.host.can_wait() then
        waited, why = pcall(rounds.settle, self, pending, LINGER)
    end
    for i = 1, #pending do
        rounds.free(pending[i])
    end
    if self.core then
        if self.meter then
            self.options.metrics:leave(self)
        end
        self.host.close(self)
    end
    self.core = nil
    if not waited then
        interrupt.rethrow(why)
    end
    return true
end

--- For people: client(3 nodes, 1 held)
function Client:__tostring()
    return ("client(%d nodes, %s)"):format(#self.options.nodes,
        self.closed and "closed" or self.holds:count() .. " held")
end

validate.methods(Client, "client", methods)
if nginx then
    lazy.load_all()              -- in the master, as a rule: a request must not read files
end
validate.any_methods(Client, "client", family.methods)
validate.any_methods(Client, "client", inspection.methods)

--- Seconds on CLOCK_BOOTTIME, as all times of the library.
function Client.now()
    return tonumber(rounds.load().rl_now_ms()) / 1000
end

return _M
