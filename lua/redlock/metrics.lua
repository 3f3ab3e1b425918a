--- Counts what a program's locks do, for Prometheus and other readers of its format
-- (types/metrics.lua). In nginx each worker counts for itself, and a lua_shared_dict has the sums.

local collect = require "redlock.metrics.collect"
local meters = require "redlock.metrics.meter"
local shared = require "redlock.metrics.shared"
local text = require "redlock.metrics.text"
local validate = require "redlock.runtime.validate"

local pairs, pcall, rawget, setmetatable, tostring, type =
    pairs, pcall, rawget, setmetatable, tostring, type
local clock = os.clock
local ngx = rawget(_G, "ngx")

local _M = {}

local Metrics, methods = {}, {}

local OPTIONS = { group = true, dict = true }
local EVERY = 1              -- seconds between two additions to the shared sums
local PIECE = 0.0003         -- seconds of work between two pauses for other requests
local YIELDS = { rewrite = true, access = true, content = true, timer = true }

local function say(line)
    if ngx and ngx.log then
        ngx.log(ngx.WARN, "redlock: ", line)
    else
        io.stderr:write("redlock: ", line, "\n")
    end
end

local function dict_of(name)
    if name == nil then
        return nil
    end
    validate.name("option dict", name, 1024)
    local dict = ngx and ngx.shared and ngx.shared[name]
    if not dict then
        validate.bad("option dict", "there is no lua_shared_dict " .. name)
    end
    return dict
end

function _M.new(opts)
    opts = validate.options("options", opts, OPTIONS)
    if opts.group ~= nil then
        validate.is_function("option group", opts.group)
    end
    return setmetatable({
        meter = meters.new(opts.group, say),
        collection = collect.new(),
        dict = dict_of(opts.dict),
        sums = nil,              -- of this worker; nil in the master
    }, Metrics)
end

--- Begins to count what a client does.
-- @return the meter, which the client notifies
function methods:attach(client)
    self.collection:add(client)
    return self.meter
end

--- Reads the counters of a client that is about to close.
function methods:detach(client)
    self.collection:collect(client)
end

-- ---- workers -----------------------------------------------------------------------

local began = 0              -- processor time at which the worker's current piece of work began

-- Every PIECE, lets the worker's other requests run, in phases that can sleep.
local function pause()
    if clock() - began >= PIECE and YIELDS[ngx.get_phase()] then
        ngx.sleep(0.001)
        began = clock()
    end
end

local function nothing()
end

-- The worker's part in the sums; nil: no `dict`. One that the master made, which has another pid,
-- is replaced.
local function sums_of(self)
    if not self.dict then
        return nil
    end
    local me = ngx.worker.pid() .. ""
    if not self.sums or self.sums.me ~= me then
        self.sums = shared.new(self.dict, me, say)
    end
    return self.sums
end

local function add_all(self, sums, breathe)
    self.collection:collect_all()
    local arrays = { self.collection.rounds }
    for _, from in pairs { self.meter.groups, self.collection.servers } do
        for _, array in pairs(from) do
            arrays[#arrays + 1] = array
        end
    end
    for i = 1, #arrays do
        sums:add(arrays[i], breathe)
    end
end

-- Writes what the page of redlock.status shows beside the sums.
local function draw(self, sums)
    sums:draw(meters.totals(self.meter), ngx.time())
    local recent = self.meter.recent
    self.meter.recent = {}
    sums:note_losses(recent)
end

function methods:publish()
    local sums = sums_of(self)
    if sums then
        began = clock()
        add_all(self, sums, pause)
        sums:publish(self.collection:now(pause))
        draw(self, sums)
    end
end

-- A worker that is exiting keeps counting for its remaining requests.
local function publish_at_once(self)
    local sums = sums_of(self)
    local function add()
        add_all(self, sums, nothing)
        draw(self, sums)
    end
    add()
    sums:publish(nil)
    meters.follow(self.meter, add)
end

function methods:start()
    if not self.dict then
        return true
    end
    local busy = false
    return ngx.timer.every(EVERY, function(premature)
        if premature then
            publish_at_once(self)
        elseif not busy then
            busy = true
            local ok, err = pcall(self.publish, self)
            busy = false
            if not ok then
                say("metrics were not published: " .. tostring(err))
            end
        end
    end)
end

-- ---- reading -----------------------------------------------------------------------

function methods:text(how)
    how = how == nil and "prometheus" or how
    if not text.types[how] then
        validate.bad("format", '"prometheus" or "openmetrics" is needed')
    end
    local sums = sums_of(self)
    if not sums then
        self.collection:collect_all()
        return text.render({ groups = self.meter.groups, servers = self.collection.servers,
            rounds = self.collection.rounds, now = self.collection:now(nothing) }, how, nothing)
    end
    self:publish()
    return text.render({ groups = sums:sums("group", pause), servers = sums:sums("server", pause),
        rounds = sums:sums("rounds", pause).all or self.collection.rounds, now = sums:now(pause) },
        how, pause)
end

--- For redlock.status: the present state of all workers, and the last minutes.
-- @return { now (of collect.lua, with workers), chart, losses }; nil: no `dict`
function methods:snapshot()
    local sums = sums_of(self)
    if not sums then
        return nil
    end
    self:publish()
    local time = ngx.time()
    return { time = time, now = sums:now(pause), chart = sums:chart(time, pause),
        losses = sums:losses() }, pause
end

function methods:serve()
    if not (ngx and ngx.req) then
        validate.raise("redlock: serve() is for workers of nginx; elsewhere, text()")
    end
    local accept = ngx.req.get_headers()["accept"]
    if type(accept) == "table" then
        accept = table.concat(accept, ",")
    end
    local how = accept and accept:find("application/openmetrics-text", 1, true) and "openmetrics"
        or "prometheus"
    ngx.header.content_type = text.types[how]
    ngx.print(self:text(how))
end

function Metrics:__tostring()
    local n = 0
    for _ in pairs(self.meter.groups) do
        n = n + 1
    end
    return ("metrics(%d groups)"):format(n)
end

validate.methods(Metrics, "metrics", methods)

return _M
