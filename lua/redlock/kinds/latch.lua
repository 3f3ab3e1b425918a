--- Count-down latches: they open when so many parties have arrived, and stay open.
--
-- Each server keeps a set of those who have arrived, which only grows: messages that are lost, late
-- or repeated change nothing. An arrival counts when a majority has acknowledged it in one round.
-- Whoever looks unites the sets of a majority, and writes the union back, also to servers that have
-- forgotten the latch, before it says that the latch is open: so it never opens early and never
-- closes again, and no acknowledged arrival is lost while at most a minority of the servers has
-- forgotten since the last look. Servers that have forgotten acknowledge nothing as long as they
-- are kept from voting; where fewer than a majority know the latch, it is `not_found`, never open.

local arrivals = require "redlock.kinds.arrivals"
local asking = require "redlock.lock.asking"
local errors = require "redlock.runtime.errors"
local future = require "redlock.lock.future"
local lock = require "redlock.lock.lock"
local nonce = require "redlock.runtime.nonce"
local printable = require("redlock.runtime.encoding").printable
local rounds = require "redlock.runtime.rounds"
local subscriptions = require "redlock.runtime.subscription"
local validate = require "redlock.runtime.validate"

local setmetatable, huge = setmetatable, math.huge
local format, min, max = string.format, math.min, math.max

local _M = { MAX = 4096 }

local OPTIONS = { ttl = true }
local TTL = 86400

local Latch, methods = {}, {}

-- A view of the latch, for an owner of its own.
local function view_of(self, count)
    local view = lock.new(self.client, arrivals.primitive, self.name, { owner = {} })
    view.count = count
    return view
end

--- Makes the latch, for so many parties; one that is open may be made anew.
-- @return true; false: there is one that is not open; or nil and an error: no_quorum, unknown
--   (no majority confirmed it: what is there ends soon), phase, closed
function methods:trySetCount(n)
    validate.integer("count", n, 1, _M.MAX)
    local view, o = view_of(self, n), self.client.options
    local ok, err = view:tryLock(0, min(o.lease, o.max_lease - o.lock_delay))
    if ok then
        return view:settle(self.ttl)
    elseif err.code == "held" then
        return false
    end
    return nil, err
end

--- Says that a party has arrived. Repeating it with the same `who` changes nothing.
-- @param who  a string that names the party; default: one that nobody else has
-- @return true: a majority has acknowledged it; or nil and an error: not_found (there is no such
--   latch, or too many servers have forgotten it), no_quorum (for `patience`), phase, closed
function methods:countDown(who)
    who = who == nil and "=" .. nonce() or "+" .. validate.name("who", who, 65536)
    local client, view, ends = self.client, view_of(self), nil
    while true do
        local answers, err = asking.ask(view, "arrive", arrivals.args_of(self, "", "-", 0, who))
        local id, code = nil, err and err.code
        if answers then
            id, code = arrivals.known_to_a_majority(self, answers)
        end
        ends = ends or client.now() + client.options.patience
        if id then
            return true
        elseif code ~= "no_quorum" or client.now() >= ends then
            return nil, err or errors.new(code, self)
        end
        rounds.sleep(client, client.options.retry_delay)
    end
end

--- @return how many are missing; or nil and an error: not_found, no_quorum, phase, closed
function methods:getCount()
    return arrivals.look(self)
end

--- Waits until all have arrived.
-- @param wait  seconds; default: as long as it takes
-- @return true; false: the time is over; or nil and an error: not_found, no_quorum (for
--   `patience`), phase, closed
function methods:await(wait)
    wait = wait and validate.seconds("wait", wait, 0) or huge
    local client = self.client
    local ok, err = lock.open_to_wait(view_of(self))
    if not ok then
        return nil, err
    end
    local ends, patience = client.now() + wait, client.options.patience
    local subscription = subscriptions.open(client, arrivals.channel(client, self.name))
    local answered, seen = client.now(), 0
    local left
    repeat
        left, err = arrivals.look(self)
        local now = client.now()
        answered = left and now or answered
        if left == 0 or rounds.to_ms(ends - now) <= 0
            or err and (err.code ~= "no_quorum" or now - answered > patience) then
            break
        end
        seen = subscriptions.sleep(client, subscription, seen,
            min(client.options.fallback, ends - now))
    until false
    if subscription then
        subscriptions.close(subscription)
    end
    if not left then
        return nil, err
    end
    return left == 0
end

--- Deletes it, whoever waits for it.
-- @return true; false: there was none; or nil and an error: no_quorum, phase, closed
function methods:delete()
    return asking.force(view_of(self), "delete", { arrivals.channel(self.client, self.name) })
end

--- @return a future of what await() returns; and so on
function methods:awaitAsync(wait)
    return future.start(self.client, self.await, self, wait)
end

function methods:countDownAsync(who)
    return future.start(self.client, self.countDown, self, who)
end

function methods:getName() return self.name end

function methods:describe() return "latch '" .. printable(self.name) .. "'" end

function methods:__tostring() return format("latch(%s)", printable(self.name)) end

Latch.__index = Latch
validate.methods(Latch, "latch", methods)

--- See Client:getCountDownLatch.
function _M.new(client, name, opts)
    local ttl = validate.options("options", opts, OPTIONS).ttl
    lock.new(client, arrivals.primitive, name)   -- checks the name
    return setmetatable({ client = client, name = name,
        ttl = ttl and validate.seconds("ttl", ttl, client.options.max_lease, rounds.FOREVER)
            or max(TTL, client.options.max_lease) }, Latch)
end

return _M
