--- Clients: the connections to one set of servers, and everything held through them.
--
-- This room is what redlock.new returns: the client, its events, and using(). It may use all rooms
-- from kinds/ down. What a server says is the core's business, how a caller waits is the host's.
-- types/client.lua documents the methods.

local ffi = require "ffi"
local bit = require "bit"
local card = require "redlock.text.card"
local change = require "redlock.client.change"
local census = require "redlock.inspect.census"
local connecting = require "redlock.servers.connecting"
local credentials = require "redlock.servers.credentials"
local validate = require "redlock.runtime.validate"
local errors = require "redlock.runtime.errors"
local events = require "redlock.client.events"
local family = require "redlock.kinds.family"
local fenced_lock = require "redlock.kinds.fenced_lock"
local finalizers = require "redlock.runtime.finalizers"
local floors = require "redlock.servers.floors"
local handover = require "redlock.lock.handover"
local tasks = require "redlock.runtime.tasks"
local quorum = require("redlock.runtime.limits").quorum
local restart_guard = require "redlock.servers.restart_guard"
local health = require "redlock.servers.health"
local holds = require "redlock.lock.holds"
local hooks = require "redlock.lock.hooks"
local expiring_set = require "redlock.runtime.expiring_set"
local local_queue = require "redlock.lock.local_queue"
local lock = require "redlock.lock.lock"
local options = require "redlock.servers.options"
local markers = require "redlock.servers.markers"
local outside = require "redlock.servers.settings"
local plain_host = require "redlock.host.plain"
local plain_lock = require "redlock.kinds.plain_lock"
local primitive = require "redlock.kinds.primitive"
local changes = require "redlock.runtime.changes"
local rounds = require "redlock.runtime.rounds"
local transfer = require "redlock.kinds.transfer"
local trial = require "redlock.servers.trial"
local using = require "redlock.client.using"
require "redlock.lock.asking"
require "redlock.lock.background"

local pcall, pairs, ipairs = pcall, pairs, ipairs
local each = pairs            -- for finalizers: see finalizers.lua
local ngx = rawget(_G, "ngx")
local nginx = ngx and ngx.timer              -- not in a thread of a pool
local getmetatable, setmetatable = getmetatable, setmetatable
local tonumber, type = tonumber, type

local _M = {}

local Client, methods = {}, {}

local IMPORT = { owner = true, primitive = true }
local INIT = { force = true }
local CHANGE = { gone = true }
local NODE_COUNTERS = { "requests", "replies", "errors", "timeouts", "connects", "disconnects",
    "in_flight", "owed" }

-- The Lua state closes. No call waits any more, so the event loop is left alone; the core has a
-- finalizer of its own.
local function vanish(self, is_first)
    if is_first then
        self.holds:orphan_all()
    end
    self.closed, self.core, self.host = true, nil, plain_host
    self.holds = holds.new(self)
end

--- See redlock.new. from: what settings.load() said of the options; nil: the program has them all.
function _M.new(opts, from)
    opts = options.new(opts)
    local self = setmetatable({
        options = opts,
        from = from or {},
        size = #opts.nodes,
        quorum = quorum(#opts.nodes),
        host = opts.host or require(nginx and "redlock.host.nginx" or "redlock.host.plain"),
        label = card.label(opts.label),
        counters = { acquired = 0, contended = 0, failed = 0, released = 0, handed_over = 0,
            lost = 0, overloaded = 0 },
        queues = {},             -- kind:name -> its queue in this process
        standing = {},           -- places of calls that wait in none of them, as keys
        waiting = 0,             -- how many calls are in them, or stand
        yields = expiring_set.new(handover.REMEMBERED),     -- kind:name -> see handover.lua
        refused = expiring_set.new(2 * opts.fallback),      -- kind:name -> see waking.lua
        used = false,            -- whether an attempt was made
        closed = false,
    }, Client)
    self.host.accept(opts)
    self.min_lease, self.longest_lease = options.min_lease(opts), options.longest_lease(opts)
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

function _M.from_environment(opts)
    return _M.new(outside.load(opts, nil, "the program"))
end

-- ---- the core --------------------------------------------------------------------

-- The fields of rl_node_options, for each node.
local function core_nodes(self)
    local list = {}
    for i, node in ipairs(self.options.nodes) do
        local password, user = self.credentials:of(i)
        list[i] = { label = node.label, host = node.host, path = node.path, port = node.port,
            db = node.db, tls = node.tls, server_name = node.server_name,
            password_file = node.password_file, password = password, user = user }
    end
    return list
end

-- How an option's value is passed to the core, if not as it is (see options.rows).
local AS = {
    ms = rounds.to_ms,
    ppm = function(share) return math.ceil(share * 1e6) end,
    signals = function(list)
        local mask = 0
        for _, signal in pairs(list) do
            mask = bit.bor(mask, rounds.load()["RL_SIGNAL_" .. signal])
        end
        return mask
    end,
}

-- The fields of rl_options.
local function core_options(self)
    local settings = { unguarded = not self.guarded, marker_script = markers.SET,
        marker = markers.KEY,            -- also where the guard is off: it looks for one
        tell_script = floors.TELL }
    for _, row in ipairs(options.rows) do
        local as, value = AS[row.as], self.options[row.name]
        if row.c and value then
            settings[row.c] = as and as(value) or value
        end
    end
    return settings
end

-- Apart from Client:open(), as LuaJIT does not compile functions that make closures.
local function open(self)
    rounds.load()
    local ok, err = self.credentials:fetch_first()
    if not ok or self.closed or self.core then       -- by a password function
        return ok and not self.closed or nil, err
    end
    local core, why = self.host.open(self, core_options(self), core_nodes(self))
    if not core then
        return nil, why:find "^out of memory" and errors.new("nomem", "the client")
            or errors.new("config", why)
    end
    self.core = core
    if self.meter then
        rounds.load().rl_get_times(core, 1, ffi.new "rl_times")    -- it times rounds from now on
    end
    self.registered, self.scripts_registered = {}, 0
    local counted = changes.counters(self)                 -- of others who share it
    self.holds.losses, self.events.renewals = counted.losses, counted.renewals
    if self.from.source then
        self.events:emit { type = "configured", source = self.from.source }
    end
    return true
end

--- Opens the core at first use.
-- @return true; nil: the client is closed; or nil and `config`: no certificate or password
function methods:open()
    if self.closed then      -- also while close() waits
        return nil
    end
    if self.core then
        return true
    end
    return open(self)
end

--- The script numbers of a primitive in this client's core; nil: no memory.
function methods:scripts(prim)
    local ids = self.registered[prim]
    if not ids then
        ids = prim:register(self, rounds.load())
        self.registered[prim] = ids
    end
    return ids
end

--- Releases all that an owner held that no longer exists. Waits for nothing.
function methods:free_owner(owner)
    for _, hold in ipairs(self.holds:all_of(owner)) do
        self.holds:orphan(hold)
        local_queue.wake_first(self.queues[hold.id])
    end
end

-- ---- public ----------------------------------------------------------------------

function methods:getLock(name, opts)
    return lock.new(self, plain_lock, name, opts)
end

function methods:getFencedLock(name, opts)
    return lock.new(self, fenced_lock, name, opts)
end

local function check_primitive(prim)
    if not primitive.is_primitive(prim) then
        validate.bad("primitive", "one made by redlock.primitive is needed, not " .. type(prim))
    end
    return prim
end

function methods:get(prim, name, opts)
    return lock.new(self, check_primitive(prim), name, opts)
end

function methods:holder(name)
    return lock.new(self, plain_lock, name):holder()
end

methods.using, methods.checkSequencer = using.using, fenced_lock.check_sequencer

function methods:import(text, opts)
    opts = validate.options("options", opts, IMPORT)
    if type(text) ~= "string" then
        validate.bad("transfer", "what lock:export() returned is needed, not " .. type(text))
    end
    local prim = opts.primitive
    local prims = prim == nil and family.kinds or { [check_primitive(prim).name] = prim }
    return transfer.import(self, prims, text, { owner = opts.owner })
end

function lock.methods:export()
    return transfer.export(self)
end

function methods:releaseAll()
    if self.closed then
        return nil, errors.new("closed", "releaseAll")
    end
    local first
    for _, owner in ipairs(self.host.owners and self.host.owners() or { self.host.owner() }) do
        for _, hold in ipairs(self.holds:held_by(owner)) do
            local l = lock.new(self, hold.primitive, hold.name, { owner = owner })
            if self.holds:get(owner, l.id) == hold then      -- unlock() waits
                hold.count, hold.reads = 1, nil      -- a writer may read as well
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

local function open_to_wait(self, what)
    return lock.open_to_wait { client = self, describe = function() return what end }
end

local function when_open(self, what, fn, arg)
    local ok, err = open_to_wait(self, what)
    if not ok then
        return nil, err
    end
    return fn(self, arg)
end

function methods:connect(seconds)
    return when_open(self, "connect", connecting.connect,
        seconds == nil and self.options.connect_timeout or validate.seconds("seconds", seconds, 0))
end

function methods:health() return when_open(self, "health", connecting.health) end
function methods:check() return when_open(self, "check", health.check, trial.run) end

function methods:init(opts)
    opts = validate.options("options", opts, INIT)
    return when_open(self, "init", restart_guard.init, validate.flag("force", opts.force))
end

function methods:change(new, opts)
    opts = validate.options("options", opts, CHANGE)
    if getmetatable(new) ~= Client then
        validate.bad("client", "a client of the new list is needed, not " .. type(new))
    end
    local gone = validate.strings("gone", opts.gone or {}, self.size)
    for _, client in ipairs { self, new } do
        local ok, err = open_to_wait(client, "change")
        if not ok then
            return nil, err
        end
    end
    return change.run(self, new, gone)
end

function methods:locks(pattern, opts)
    return when_open(self, "locks", census.locks, census.options(pattern, opts))
end

function methods:stats()
    local stats = { waiting = self.waiting, nodes = {} }
    for name, value in each(self.counters) do
        stats[name] = value
    end
    if not self.core then
        return stats
    end
    local C, counters = rounds.load(), changes.counters(self)
    stats.owed, stats.forgone = counters.owed, counters.forgone
    stats.renewals = counters.renewals
    local info = ffi.new "rl_node_info"
    local s = info.stats
    for i = 1, self.size do
        C.rl_node_get_info(self.core, i - 1, info)
        stats.nodes[i] = {
            node = self.options.nodes[i].label,
            ready = s.ready ~= 0,
            code = ffi.string(C.rl_code_name(s.code)),
        }
        for _, field in ipairs(NODE_COUNTERS) do
            stats.nodes[i][field] = tonumber(s[field])
        end
    end
    return stats
end

function methods:close()
    if self.closed then
        return true
    end
    self.tasks:close()
    local waiters = local_queue.waiters(self)
    for i = 1, self.core and #waiters or 0 do        -- while the client can send their farewells
        hooks.abandoned(waiters[i])
    end
    self.closed, self.asked = true, nil
    for _, queue in pairs(self.queues) do
        local_queue.wake_all(queue)
    end
    local pending = {}
    local ended = self.holds
    local list = ended:all()
    self.holds = holds.new(self)
    for i, hold in ipairs(list) do
        pending[i] = rounds.release(hold.lease)
    end
    for _, hold in ipairs(list) do       -- after the loop above: onLost finds nothing to release
        ended:lose(hold, "closed")
    end
    local waited, why = true, nil
    if list[1] and self.host.can_wait() then
        waited, why = pcall(rounds.await_all, self, pending,
            tonumber(rounds.load().RL_LINGER_MS) / 1000)
    end
    for i = 1, #pending do
        rounds.free(pending[i])
    end
    if self.core then
        if self.meter then
            self.options.metrics:detach(self)
        end
        self.host.close(self)
    end
    self.core = nil
    if not waited then
        errors.rethrow_interrupt(why)
    end
    return true
end

function Client:__tostring()
    return ("client(%d nodes, %s)"):format(#self.options.nodes,
        self.closed and "closed" or self.holds:count() .. " held")
end

validate.methods(Client, "client", methods)
validate.any_methods(Client, "client", family.methods)

--- Seconds on CLOCK_BOOTTIME, as all times of the library.
function Client.now()
    return tonumber(rounds.load().rl_now_ms()) / 1000
end

return _M
