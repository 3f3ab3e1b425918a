-- From a seed to the list of faults that will happen, before anything runs.
local faults = require "spec.chaos.faults"
local random = require "spec.chaos.random"

local _M = {}

local QUIET_S = 0.3             -- at the beginning
local GAP_S = 0.05              -- between two faults of one target

local by_name = {}
for _, fault in ipairs(faults) do
    by_name[fault.name] = fault
end

--- The entry of faults.lua behind an item of a schedule.
function _M.fault(f)
    return by_name[f.name]
end

-- Expected number, rounded up or down by chance.
local function how_many(r, fault, opts)
    local n = fault.per_minute * opts.seconds / 60 * (opts.rate or 1)
    return math.floor(n) + (r:float() < n % 1 and 1 or 0)
end

local function draw(opts)
    local list = {}
    for i, fault in ipairs(faults) do
        -- A generator for each: a new fault leaves the times of the others as they were.
        local own = random.new(opts.seed, opts.nodes, fault.name)
        for _ = 1, how_many(own, fault, opts) do
            list[#list + 1] = { name = fault.name, order = i,
                t = own:between(QUIET_S, math.max(opts.seconds - 0.5, QUIET_S)),
                lasts = fault.lasts and own:between(fault.lasts[1], fault.lasts[2]) or 0,
                x = own:float(), first = own:integer(0, 1e6), some = own:float() }
        end
    end
    table.sort(list, function(a, b)
        if a.t ~= b.t then
            return a.t < b.t
        end
        return a.order < b.order
    end)
    return list
end

-- ---- whom it hits ----------------------------------------------------------------

local Places = {}
Places.__index = Places

local function is_free(busy, name, f)
    return (busy[name] or 0) + GAP_S < f.t
end

function Places:impaired(f)
    local n = 0
    for _, other in ipairs(self.impairing) do
        if other.t <= f.ends and f.t <= other.ends then
            n = n + 1
        end
    end
    return n
end

-- The first free target, from one that chance names.
local function first_free(f, n, busy, prefix)
    for k = 0, n - 1 do
        local i = (f.first + k) % n + 1
        if is_free(busy, prefix .. i, f) then
            busy[prefix .. i] = f.ends
            return i
        end
    end
end

function Places:on_server(f, fault)
    local opts = self.opts
    local minority = opts.nodes - (math.floor(opts.nodes / 2) + 1)
    local quarantine = opts.guard and fault.guarded
    f.door = opts.claim and fault.forgets and not quarantine or nil
    f.opens = f.t + f.lasts + (f.door and opts.guard_s or 0)
    f.ends = f.opens + (quarantine and opts.guard_s or 0)
    if fault.name == "clock_creeps" then
        f.ends = f.t + opts.guard_s      -- the allowance is for one lease
    end
    local impairs = fault.impairs or f.door or quarantine
    if impairs and opts.claim and self:impaired(f) >= minority then
        return false
    end
    f.server = first_free(f, opts.nodes, self.busy, "server ")
    if f.server and impairs then
        self.impairing[#self.impairing + 1] = f
    end
    return f.server ~= nil
end

function Places:on_client(f)
    f.ends = f.t + f.lasts
    f.client = first_free(f, self.opts.clients, self.busy, "client ")
    return f.client ~= nil
end

function Places:on_nginx(f)
    local opts = self.opts
    local client = opts.clients + f.first % math.max(opts.nginx or 0, 1) + 1
    f.ends = f.t + f.lasts
    if (opts.nginx or 0) == 0 or not is_free(self.busy, "client " .. client, f) then
        return false
    end
    f.client, self.busy["client " .. client] = client, f.ends
    return true
end

function Places:on_edges(f)
    f.ends = f.t + f.lasts
    f.client = f.first % (self.opts.clients + (self.opts.nginx or 0)) + 1
    f.edges = {}
    for s = 1, self.opts.nodes do
        local name = ("edge %d %d"):format(f.client, s)
        local wanted = (f.first * (s + 7)) % 101 / 101 < f.some or s == f.first % self.opts.nodes
            + 1
        if wanted and is_free(self.busy, name, f) then
            self.busy[name] = f.ends
            f.edges[#f.edges + 1] = s
        end
    end
    return #f.edges > 0
end

local PLACE = { server = "on_server", client = "on_client", edges = "on_edges",
    nginx = "on_nginx" }

local function wanted(fault, opts)
    return not (fault.beyond and opts.claim) and not (fault.fakes_time and opts.guard)
        and (not opts.only or opts.only[fault.name])
end

--- @param opts  seed, seconds, nodes, clients, nginx (how many clients after those are),
--   claim, guard (see guarded in faults.lua), guard_s: how long a server that forgot may not
--   vote, rate (times as many faults), only (a set of names)
-- @return a list of { t, name, lasts, x, server | client (, edges), door, opens }, by time
function _M.new(opts)
    local places = setmetatable({ opts = opts, busy = {}, impairing = {} }, Places)
    local list = {}
    for _, f in ipairs(draw(opts)) do
        local fault = by_name[f.name]
        if wanted(fault, opts) and places[PLACE[fault.on]](places, f, fault) then
            list[#list + 1] = f
        end
    end
    return list
end

--- One line for a fault.
function _M.describe(f)
    local whom = f.server and "server " .. f.server or "client " .. f.client
    if f.edges then
        whom = ("%s to servers %s"):format(whom, table.concat(f.edges, " "))
    end
    return ("%8.3f s  %-18s %s%s%s  x=%.3f"):format(f.t, f.name, whom,
        f.lasts > 0 and (" for %.3f s"):format(f.lasts) or "",
        f.door and (", away until %.3f s"):format(f.opens) or "", f.x)
end

return _M
