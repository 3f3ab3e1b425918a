--- The fenced lock: every hold has a token, a number that only grows.
--
-- A resource that refuses tokens below the largest it has seen is safe from holders that do not
-- know that their lease has ended. How servers agree on a token: c/core/leases/fence.c; what each
-- server keeps: scripts/fenced/counter.lua. The lock itself is a plain lock's key, so plain and
-- fenced locks of one name exclude each other.

local answers = require "redlock.runtime.answers"
local asking = require "redlock.lock.asking"
local floors = require "redlock.servers.floors"
local hash = require("redlock.text.encoding").hash
local lock = require "redlock.lock.lock"
local majority = require("redlock.runtime.limits").majority
local plain_lock = require "redlock.kinds.plain_lock"
local primitive = require "redlock.kinds.primitive"
local rounds = require "redlock.runtime.rounds"
local script = require("redlock.runtime.script_text").own
local sequencer = require "redlock.kinds.sequencer"

local format = string.format

local function keys(client, name)
    local key = client.options.prefix .. name
    return { key, "redlock:{" .. key .. "}:fence", floors.KEY }
end

local function bucket_of(view)
    return format("%d", hash(view.client.options.prefix .. view.name) % floors.BUCKETS)
end

local function args(view)
    return { bucket_of(view), format("%d", rounds.to_ms(floors.COUNTER_TTL)),
        floors.limit(view.client) }
end

local methods = {}

function methods:token()
    return lock.number_of(self)
end

function methods:sequencer()
    local token, err = self:token()
    if not token then
        return nil, err
    end
    return sequencer.format { name = self.name, mode = "exclusive", token = token }
end

local fenced = primitive.new {
    name = "fenced lock",
    like = plain_lock,
    vote = "largest",
    knows_run = true,
    acquire = script("fenced.counter", "fenced.voting", "fenced.acquire", "lock.shape",
        "lock.refused"),
    confirm = script("fenced.counter", "fenced.counted", "fenced.confirm"),
    extend = script("fenced.counter", "fenced.counted", "fenced.extend"),
    heal = script("fenced.counter", "fenced.counted", "fenced.heal"),
    release = script("fenced.let_go", "fenced.counter", "fenced.release"),
    import = script("fenced.replaced", "fenced.counter", "fenced.voting", "fenced.import"),
    asks = {
        current = { script "fenced.current" },
        look = { script "election.look" },
        tell = { script "election.tell" },
    },
    keys = keys,
    args = args,
    methods = methods,
}

--- Asks the servers whether a hold is current: the lock is held, and none counted past the hold's
-- token.
-- @return whether a majority says so; or nil and an error, such as no_quorum when the servers
--   that did not answer would decide
function fenced.is_current(view, token)
    local said, err = asking.ask(view, "current", { format("%.0f", token),
        view.client.guarded and "1" or "" })
    if not said then
        return nil, err
    end
    local current = majority(said, view.client.size, answers.says_yes)
    if current == nil then
        return lock.failure(view, "no_quorum")
    end
    return current
end

return fenced
