--- Count-down latches: they open when all parties have arrived, and stay open.
--
-- Each server keeps a set of arrivals, which only grows: lost, late or repeated messages change
-- nothing. An arrival counts when a majority has acknowledged it in one round. A look unites the
-- sets of a majority and writes the union back, also to servers that answer that they forgot the
-- latch, before it says that the latch is open. So it never opens early and never closes again, and
-- no acknowledged arrival is lost while at most a minority has forgotten since a look that all
-- answered. A server that forgot acknowledges nothing while it may not vote. Where fewer than a
-- majority know the latch it is `not_found`, never open.

local answers = require "redlock.runtime.answers"
local primitive = require "redlock.kinds.primitive"
local script = require("redlock.runtime.script_text").own
local asking = require "redlock.lock.asking"
local errors = require "redlock.runtime.errors"
local future = require "redlock.lock.future"
local lock = require "redlock.lock.lock"
local majority = require("redlock.runtime.limits").majority
local ffi_values = require "redlock.runtime.ffi_values"
local printable = require("redlock.text.encoding").printable
local rounds = require "redlock.runtime.rounds"
local subscriptions = require "redlock.runtime.subscription"
local validate = require "redlock.runtime.validate"
local waking = require "redlock.lock.waking"

local ipairs, pairs, setmetatable, tonumber, unpack = ipairs, pairs, setmetatable, tonumber, unpack
local format, match = string.format, string.match
local huge, max, min = math.huge, math.max, math.min

local _M = { MAX = 4096 }

local PAGE, A_MESSAGE = 12, 11         -- ids in an answer (arrive.lua), and in a message of ours

local function keys(client, name)
    local key = "redlock:{" .. client.options.prefix .. name .. "}:"
    return { key .. "latch", key .. "arrived" }
end

local function channel(client, name)
    return "redlock:{" .. client.options.prefix .. name .. ":latch}:free"
end

local arrive = script("latch.read", "latch.arrive")
local latch_primitive = primitive.new {
    name = "latch",
    unlabelled = true,           -- the value is the latch's id
    acquire = script("latch.read", "latch.create"),
    release = script "latch.release",
    settle = script "latch.settle",
    asks = { look = { arrive }, arrive = { arrive, guarded = true },
        delete = { script("lock.named", "latch.read", "latch.delete") } },
    keys = keys,
    args = function(view) return { format("%d", view.count or 0) } end,
    channel = channel,
}
_M.primitive = latch_primitive

-- ARGV of arrive.lua, for a latch. id: "": whichever exists; known: the last arrival already known;
-- "-": list none; count: of the latch if the script may create it; else 0; ...: arrivals.
local function args_of(self, id, known, count, ...)
    return { id, format("%d", rounds.to_ms(self.ttl)), channel(self.client, self.name), known,
        format("%d", count), ... }
end

local function id_of(answer)
    return answer.vote == 1 and match(answer.data, "^(%x+) %d+ ") or nil
end

-- @return the id and count of the latch that a majority knows, and how many servers say that it is
--   open; or nil and a code
local function known_to_a_majority(self, said)
    local id, open, count = majority(said, self.client.size, id_of), 0, nil
    if not id then
        return nil, id == nil and "no_quorum" or "not_found"
    end
    for _, answer in ipairs(said) do
        if id_of(answer) == id then
            count = tonumber(match(answer.data, "^%x+ (%d+)"))
            open = open + (answer.info == 0 and 1 or 0)
        end
    end
    return id, count, open
end

-- Adds the arrivals that answers name to `union`.
-- @return where the next page begins: up to this one all are known; nil: all are known
local function unite(union, id, said)
    local next_one
    for _, answer in ipairs(said) do
        local page, n, last = match(answer.data, "^" .. id .. " %d+ (%x*)$") or "", 0, nil
        for who in page:gmatch(("%x"):rep(16)) do
            union[who], n, last = true, n + 1, who
        end
        next_one = n == PAGE and (not next_one or last < next_one) and last or next_one
    end
    return next_one
end

-- Writes back the arrivals, some in each message.
local function write_back(self, view, id, count, union)
    local list = {}
    for who in pairs(union) do
        list[#list + 1] = "=" .. who
    end
    for from = 1, #list, A_MESSAGE do
        local said, err = asking.ask(view, "arrive", args_of(self, id, "-", count,
            unpack(list, from, min(from + A_MESSAGE - 1, #list))))
        if not said then
            return nil, err
        elseif answers.yes(said) < self.client.quorum then
            return lock.failure(self, "no_quorum")
        end
    end
    return true
end

-- Counts the missing parties, and gives servers the arrivals they lack.
local function count_missing(self)
    local view = lock.new(self.client, latch_primitive, self.name)
    local union, known, differ, id, count = {}, "", false
    repeat
        local said, err = asking.ask(view, "look", args_of(self, id or "", known, 0))
        if not said then
            return nil, err
        end
        local this, that, open = known_to_a_majority(self, said)
        if not this or id and this ~= id then
            return lock.failure(self, id and "no_quorum" or that)
        end
        id, count, self.known = this, that, this
        if open >= self.client.quorum then
            return 0
        end
        for _, answer in ipairs(said) do
            differ = differ or answer.vote ~= 1 or answer.info ~= said[1].info
        end
        known = unite(union, id, said)
    until not known
    local n = 0
    for _ in pairs(union) do
        n = n + 1
    end
    if n >= count or differ then
        local ok, err = write_back(self, view, id, count, union)
        if not ok and n >= count then
            return nil, err
        end
    end
    return max(count - n, 0)
end

-- ---- latches -------------------------------------------------------------------------

local OPTIONS = { ttl = true }
local TTL = 86400

local Latch, methods = {}, {}

-- A view of the latch, with a new owner.
local function view_of(self, count)
    local view = lock.new(self.client, latch_primitive, self.name, { owner = {} })
    view.count = count
    return view
end

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

function methods:countDown(who)
    who = who == nil and "=" .. ffi_values.nonce() or "+" .. validate.name("who", who, 65536)
    local client, view, ends = self.client, view_of(self), nil
    while true do
        -- A message has the id, so that one that comes late does not count in a later latch.
        local of = self.known
        local said, err = asking.ask(view, of and "arrive" or "look",
            args_of(self, of or "", "-", 0, of and who))
        local id, code = nil, err and err.code
        if said then
            id, code = known_to_a_majority(self, said)
        end
        ends = ends or client.now() + client.options.patience
        self.known = id
        if of and id then
            return true
        elseif not id and (code ~= "no_quorum" and not (of and said) or client.now() >= ends) then
            return nil, err or errors.new(code, self)
        elseif code == "no_quorum" then
            rounds.sleep(client, waking.RETRY_DELAY)
        end
    end
end

methods.getCount = count_missing

-- @return true: it is open, at `ends` at the latest; or nil and an error
local function wait_until(subscription, self, ends)
    local client, id = self.client, "latch:" .. self.name
    local patience, answered, seen = client.options.patience, client.now(), 0
    local function sleep(seconds)
        local before = seen
        seen = subscriptions.sleep(client, subscription, seen, seconds)
        return seen > before
    end
    repeat
        local at = client.now()
        local left, err = count_missing(self)
        local now = client.now()
        answered = left and now or answered
        if left == 0 or rounds.to_ms(ends - now) <= 0
            or err and (err.code ~= "no_quorum" or now - answered > patience) then
            if left and left > 0 then
                return lock.failure(self, "timeout")
            end
            return left and true, err
        elseif rounds.is_ending(client) then
            return lock.failure(self, "closed")
        end
        if left then
            waking.refused(client, id, at)
        end
        if not sleep(min(client.options.fallback * (0.5 + rounds.random(client)), ends - now)) then
            answered = waking.sleep_on(client, id, now, ends, sleep) or answered
        end
    until false
end

function methods:await(wait)
    wait = wait and validate.seconds("wait", wait, 0) or huge
    local client = self.client
    local ok, err = lock.open_to_wait(view_of(self))
    if not ok then
        return nil, err
    end
    return subscriptions.with(client, channel(client, self.name), wait_until, self,
        client.now() + wait)
end

function methods:delete()
    return asking.force(view_of(self), "delete", { channel(self.client, self.name) })
end

function methods:awaitAsync(wait)
    return future.start(self.client, self.await, self, wait)
end

function methods:countDownAsync(who)
    return future.start(self.client, self.countDown, self, who)
end

function methods:getName() return self.name end

function methods:describe() return "latch '" .. printable(self.name) .. "'" end

function methods:__tostring() return format("latch(%s)", printable(self.name)) end
validate.methods(Latch, "latch", methods)

function _M.new(client, name, opts)
    local ttl = validate.options("options", opts, OPTIONS).ttl
    lock.new(client, latch_primitive, name)   -- checks the name
    return setmetatable({ client = client, name = name,
        ttl = ttl and validate.seconds("ttl", ttl, client.options.max_lease, rounds.FOREVER)
            or max(TTL, client.options.max_lease) }, Latch)
end

return _M
