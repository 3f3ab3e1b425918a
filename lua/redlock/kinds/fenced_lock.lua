--- The fenced lock: a lock whose every hold has a token, a number that only grows.
--
-- A resource that refuses tokens below the largest it has seen is safe from holders who do
-- not know that their time is over. How a token is agreed upon: c/core/leases/fence.c; what each
-- server keeps: scripts/fenced/counter.lua. On the servers the lock itself is a plain lock's key:
-- plain and fenced locks of one name exclude each other.

local asking = require "redlock.lock.asking"
local floors = require "redlock.servers.floors"
local hash = require("redlock.runtime.encoding").hash
local lock = require "redlock.lock.lock"
local primitive = require "redlock.kinds.primitive"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"
local sequencer = require "redlock.kinds.sequencer"

local format, unpack = string.format, unpack

-- A script of several parts; each declares what the next ones use.
local function parts(...)
    local names = { ... }
    for i = 1, #names do
        names[i] = "redlock.scripts.fenced." .. names[i]
    end
    return script_text.read(unpack(names))
end

local function keys(client, name)
    local key = client.options.prefix .. name
    return { key, "redlock:{" .. key .. "}:fence", floors.KEY }
end

local function bucket_of(view)
    return format("%d", hash(view.client.options.prefix .. view.name) % floors.BUCKETS)
end

local function args(view)
    local client = view.client
    return { bucket_of(view), format("%d", rounds.to_ms(client.options.fence_ttl)),
        floors.limit(client) }
end

local methods = {}

--- @return the token of this hold, a whole number below 10^14; or nil and an error: not_held,
--   lost (the lease is over, and a token of no use any more)
function methods:token()
    return lock.number_of(self)
end

--- Asks the servers whether a larger token can have been issued. One round trip; the lease
-- stays as it is.
-- @return true: no larger token had been issued when this was called; or nil and an error: lost,
--   no_quorum, not_held (also: let go meanwhile), phase, closed
function methods:stillMine()
    local hold, err = lock.valid_hold(self)
    if not hold then
        return nil, err
    end
    local ok
    ok, err = lock.prolong(self, 0)
    if not ok then
        return nil, err
    end
    return true
end

--- The hold as one printable string, for client:checkSequencer(): it can travel with a
-- request to whoever has to know that the lock was held.
-- @return a string; or nil and an error: not_held, lost
function methods:sequencer()
    local token, err = self:token()
    if not token then
        return nil, err
    end
    return sequencer.format { name = self.name, mode = "exclusive", token = token }
end

local fenced = primitive.new {
    name = "fenced lock",
    rivals = { "lock", "read lock", "write lock", "fair lock",
        "fenced write lock" },
    vote = "largest",
    knows_run = true,
    acquire = parts("counter", "acquire"),
    confirm = parts("counter", "counted", "confirm"),
    extend = parts("counter", "counted", "extend"),
    heal = parts("counter", "counted", "heal"),
    release = parts("let_go", "counter", "release"),
    handover = parts("replaced", "counter", "counted", "handover"),
    peek = script_text.read "redlock.scripts.lock.peek",
    force = script_text.read "redlock.scripts.lock.force",
    settle = script_text.read "redlock.scripts.lock.settle",
    asks = {
        current = { script_text.read "redlock.scripts.fenced.current" },
        floor = { parts("run", "floor") },
        seed = { parts("run", "seed") },
        announce = { script_text.read "redlock.scripts.election.announce" },
        look = { script_text.read "redlock.scripts.election.look" },
        retire = { script_text.read "redlock.scripts.election.retire" },
    },
    keys = keys,
    args = args,
    -- before: in front of an attempt, which finds by itself whether servers are unseeded
    unseeded = function(view, op, within, before)
        local bucket = bucket_of(view)
        if before and not view.client.unseeded[bucket] then
            return true
        end
        return floors.seed(view, bucket, op, within)
    end,
    channel = primitive.channel,
    methods = methods,
}

--- Asks the servers whether a hold is current: the lock is held, and none has counted past
-- its token.
-- @param view   a fenced lock
-- @param token  of the hold
-- @param value  of the hold, or nil: of whoever has the lock
-- @return whether a majority says so; or nil and an error, such as no_quorum, when the servers
--   that have not answered would decide
function fenced.is_current(view, token, value)
    local answers, err = asking.ask(view, "current", { format("%.0f", token), value or "",
        view.client.guarded and "1" or "" })
    if not answers then
        return nil, err
    end
    local yes, no, client = 0, 0, view.client
    for i = 1, #answers do
        if answers[i].vote > 0 then
            yes = yes + 1
        else
            no = no + 1
        end
    end
    if yes < client.quorum and no <= client.size - client.quorum then
        return lock.failure(view, "no_quorum")
    end
    return yes >= client.quorum
end

return fenced
