--- The fenced lock: every hold has a token, a number that only grows.
--
-- A resource that refuses tokens below the largest it has seen is safe from holders that do not
-- know that their lease has ended. How servers agree on a token: c/core/leases/fence.c; what each
-- server keeps: scripts/fenced/counter.lua. The lock itself is a plain lock's key, so plain and
-- fenced locks of one name exclude each other.

local answers = require "redlock.runtime.answers"
local asking = require "redlock.lock.asking"
local floors = require "redlock.servers.floors"
local hash = require("redlock.runtime.encoding").hash
local lock = require "redlock.lock.lock"
local primitive = require "redlock.kinds.primitive"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"
local sequencer = require "redlock.kinds.sequencer"

local format, unpack = string.format, unpack

-- A script of several parts; each part declares what the next ones use.
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

--- The token of this hold, or nil and an error.
function methods:token()
    return lock.number_of(self)
end

--- Whether no larger token had been issued when this was called; one round trip.
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

--- The hold as one printable string, for client:checkSequencer().
function methods:sequencer()
    local token, err = self:token()
    if not token then
        return nil, err
    end
    return sequencer.format { name = self.name, mode = "exclusive", token = token }
end

local fenced = primitive.new {
    name = "fenced lock",
    rivals = true,
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
    -- before: called ahead of an attempt, which finds unseeded servers by itself
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

--- Asks the servers whether a hold is current: the lock is held (for `value`; nil: for anybody),
-- and none counted past the hold's token.
-- @return whether a majority says so; or nil and an error, such as no_quorum when the servers
--   that did not answer would decide
function fenced.is_current(view, token, value)
    local said, err = asking.ask(view, "current", { format("%.0f", token), value or "",
        view.client.guarded and "1" or "" })
    if not said then
        return nil, err
    end
    local yes, client = answers.yes(said), view.client
    if yes < client.quorum and #said - yes <= client.size - client.quorum then
        return lock.failure(view, "no_quorum")
    end
    return yes >= client.quorum
end

return fenced
