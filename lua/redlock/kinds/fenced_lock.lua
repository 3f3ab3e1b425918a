--- The fenced lock: every hold has a token, a number that only grows.
--
-- A resource that refuses tokens below the largest it has seen is safe from holders that do not
-- know that their lease has ended. How servers agree on a token: c/core/leases/fence.c; what each
-- server keeps: scripts/fenced/counter.lua. The lock itself is a plain lock's key, so plain and
-- fenced locks of one name exclude each other.

local answers = require "redlock.runtime.answers"
local asking = require "redlock.lock.asking"
local encoding = require "redlock.text.encoding"
local errors = require "redlock.runtime.errors"
local floors = require "redlock.servers.floors"
local limits = require "redlock.runtime.limits"
local lock = require "redlock.lock.lock"
local plain_lock = require "redlock.kinds.plain_lock"
local primitive = require "redlock.kinds.primitive"
local rounds = require "redlock.runtime.rounds"
local script = require("redlock.runtime.script_text").own
local validate = require "redlock.runtime.validate"

local tonumber, type = tonumber, type
local format, match = string.format, string.match

-- In sequencers, which are as in Chubby, names stay as they are, except for characters that a URL
-- or a log line would not keep.
local KEPT, DIGITS = "%w._:/-", "%%%02x"

local function keys(client, name)
    local key = client.options.prefix .. name
    return { key, "redlock:{" .. key .. "}:fence", floors.KEY }
end

local function args(view)
    local bucket = encoding.hash(view.client.options.prefix .. view.name) % floors.BUCKETS
    return { format("%d", bucket), format("%d", rounds.to_ms(floors.COUNTER_TTL)),
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
    return encoding.add_checksum(format("fence;%s;exclusive;%.0f",
        encoding.escape(self.name, KEPT, DIGITS), token), ";")
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

-- @return the name and the token in a sequencer; nil: it is none
local function parse(text)
    local name, token = match(encoding.strip_checksum(text, ";") or "",
        "^fence;([^;]+);%l+;(%d+)$")
    name = name and encoding.unescape(name)
    if name and #name <= limits.MAX_NAME then
        return name, tonumber(token)
    end
end

--- Whether a majority of the servers says that the lock is held, and that none counted past the
-- token. See Client:checkSequencer.
function fenced.check_sequencer(client, text)
    if type(text) ~= "string" then
        validate.bad("sequencer", "a string is needed, not " .. type(text))
    end
    local name, token = parse(text)
    if not name or lock.is_reserved(client, name) then       -- later formats: fence2, fence3
        return nil, errors.new("config", not name and match(text, "^fence%d+;")
            and "a sequencer of another version of the library"
            or "a text that lock:sequencer() did not make")
    end
    local view = lock.new(client, fenced, name)
    local said, err = asking.ask(view, "current", { format("%.0f", token),
        client.guarded and "1" or "" })
    if not said then
        return nil, err
    end
    local current = limits.majority(said, client.size, answers.says_yes)
    if current == nil then
        return lock.failure(view, "no_quorum")
    end
    return current
end

return fenced
