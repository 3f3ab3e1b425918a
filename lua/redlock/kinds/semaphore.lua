--- Semaphores: at most `permits` holders at once, each with a permit that ends by itself.
--
-- Each permit is a slot, and each slot is a Redlock of its own: a server grants a slot that is free
-- there, and says which; only votes for the same slot add up. So there are never more holders than
-- slots. (Counting holders on each server would not do: two majorities may share a single server,
-- so three takers could find room for two.)
--
-- A server that granted another slot than the majority keeps a stray. It never counts, and the
-- server moves it to the majority's slot after its answer is read.
--
-- A permit is an object and its own owner: any code that has it may release it, and so does the
-- collector.

local bit = require "bit"
local lock = require "redlock.lock.lock"
local permit_token = require "redlock.kinds.permit_token"
local primitive = require "redlock.kinds.primitive"
local printable = require("redlock.text.encoding").printable
local rounds = require "redlock.runtime.rounds"
local script = require("redlock.runtime.script_text").own
local validate = require "redlock.runtime.validate"
local asking = require "redlock.lock.asking"
local future = require "redlock.lock.future"

local ipairs, setmetatable, tonumber, floor = ipairs, setmetatable, tonumber, math.floor
local find, format, sub = string.find, string.format, string.sub
local band, rshift = bit.band, bit.rshift

local _M = { MAX = 1024 }        -- the 256 bytes of an answer tell four slots to a digit

local Lock = lock.methods

-- A script that is told which slot the majority gave.
local function agreed(name)
    return script("now", "slots.slots", "slots.agreed", "slots." .. name)
end

local function keys(client, name)
    local key = "redlock:{" .. client.options.prefix .. name .. "}:"
    return { key .. "slots", key .. "who" }
end

local function channel(client, name)
    return "redlock:{" .. client.options.prefix .. name .. ":slots}:free"
end

-- Only acquire needs the number of slots and where to begin; later scripts know the slot. It begins
-- at the slot that the server asked first has given, else at the one released last, which is free,
-- else at random, to avoid other attempts.
local function args(permit)
    local client, semaphore = permit.client, permit.semaphore or { permits = 1 }
    local n = semaphore.permits
    local from = permit.given or semaphore.from or floor(rounds.random(client) * n)
    semaphore.from = nil
    return { format("%d", n), format("%d", from), channel(client, permit.name) }
end

-- ---- permits ---------------------------------------------------------------------

local permit_methods = {}

function permit_methods:release()
    local hold = lock.hold_of(self)
    if hold and self.semaphore then
        self.semaphore.from = (rounds.token(hold.lease) or 1) - 1
    end
    return Lock.unlock(self)
end

function permit_methods:slot()
    return lock.number_of(self)
end

permit_methods.token = permit_token.token

_M.permit = primitive.new {
    name = "permit",
    vote = "same",
    shared = true,
    acquire = script("now", "slots.first", "slots.slots", "slots.acquire"),
    extend = agreed "extend",
    import = script("now", "slots.slots", "slots.import"),
    release = script("slots.last", "now", "slots.slots", "slots.release"),
    settle = agreed "settle",
    asks = { open = { script("now", "slots.slots", "lock.named", "slots.open") },
        taken = { script("now", "slots.taken") }, count = permit_token.count },
    keys = keys,
    args = args,
    channel = channel,
    reenter = function() return nil, "unsupported" end,      -- one permit is one hold
    methods = permit_methods,
}

_M.permit.recount = permit_token.recount

--- A permit that is not taken yet, of { client, name, permits, from: where to begin, or nil }.
function _M.permit_of(semaphore)
    local permit = lock.new(semaphore.client, _M.permit, semaphore.name, { owner = {} })
    permit.semaphore = semaphore
    return permit
end

-- ---- semaphores ------------------------------------------------------------------

local Semaphore, methods = {}, {}
local OPTIONS = { fenced = true }

function methods:acquire(lease)
    local permit = _M.permit_of(self)
    return permit_token.taken(permit, permit:lock(lease))
end

function methods:tryAcquire(wait, lease)
    local permit = _M.permit_of(self)
    return permit_token.taken(permit, permit:tryLock(wait, lease))
end

function methods:acquireAsync(lease)
    lock.check_lease(self, lease)
    return future.start(self.client, self.acquire, self, lease)
end

function methods:tryAcquireAsync(wait, lease)
    lock.check_wait(wait)
    lock.check_lease(self, lease)
    return future.start(self.client, self.tryAcquire, self, wait, lease)
end

function methods:availablePermits()
    local n, q, free = self.permits, self.client.quorum, self.permits
    local answers, err = asking.ask(_M.permit_of(self), "taken", { format("%d", n) })
    if not answers then
        return nil, err
    end
    for slot = 1, n do
        local at, say_so = floor((slot + 3) / 4), 0
        for _, answer in ipairs(answers) do
            local digit = tonumber(sub(answer.data, at, at), 16) or 0
            say_so = say_so + band(rshift(digit, (slot - 1) % 4), 1)
        end
        free = free - (say_so >= q and 1 or 0)
    end
    return free
end

--- Frees the permits of a name, for redlock unlock. opts: as for lock:forceUnlock.
function _M.open(client, name, opts)
    return asking.force(_M.permit_of { client = client, name = name, permits = 1 }, "open",
        { "", "0", "0", "1", "0", channel(client, name) }, opts)
end

_M.available = methods.availablePermits

function methods:getName() return self.given end

function methods:describe()
    return "semaphore '" .. printable(self.given) .. "'"
end

function methods:__tostring()
    return format("semaphore(%s, %d permits)", printable(self.given), self.permits)
end
validate.methods(Semaphore, "semaphore", methods)

function _M.new(client, name, permits, opts)
    local fenced = validate.options("options", opts, OPTIONS).fenced
    validate.integer("permits", permits, 1, _M.MAX)
    lock.new(client, _M.permit, name)        -- checks the name
    -- Keys of names that end so are those of rate limiters; a colon more tells a semaphore apart.
    local own = find(client.options.prefix .. name, ":rate:*$") and name .. ":" or name
    return setmetatable({ client = client, given = name, name = own, permits = permits,
        fenced = validate.flag("fenced", fenced) }, Semaphore)
end

return _M
