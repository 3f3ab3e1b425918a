--- The fenced write lock: the writer of a read-write lock, with a token for every hold.
--
-- It is a fenced lock that closes the door of the read-write lock, so writers and fenced locks of
-- a name draw tokens from one sequence. Readers have none: a reader's number would have to lie
-- between those of the writers before and after it, but the largest among its grants may come from
-- a minority, and exceed the next writer's (spec/models/README.md).

local fenced_lock = require "redlock.kinds.fenced_lock"
local lock = require "redlock.lock.lock"
local primitive = require "redlock.kinds.primitive"
local read_write_lock = require "redlock.kinds.read_write_lock"
local question = require "redlock.runtime.question"
local script_text = require "redlock.runtime.script_text"
local validate = require "redlock.runtime.validate"

local pairs, unpack = pairs, unpack
local SCRIPTS, PLAIN = "redlock.scripts.", "redlock.scripts.lock."
local writing = read_write_lock.writing

-- A script of several parts, named without "redlock.scripts".
local function parts(...)
    local names = { ... }
    for i = 1, #names do
        names[i] = SCRIPTS .. names[i]
    end
    return script_text.read(unpack(names))
end

local function args(view, wait)
    local list = fenced_lock.args(view)
    list[#list + 1] = writing.args(view, wait)[1]
    return list
end

local fenced = primitive.new {
    name = "fenced write lock",
    rivals = true,
    vote = "largest",
    knows_run = true,
    waits = true,
    acquire = parts("rw.door", "fenced.counter", "rw.close", "fenced.acquire"),
    confirm = parts("rw.door", "fenced.counter", "fenced.counted", "fenced.confirm"),
    extend = parts("rw.door", "fenced.counter", "fenced.counted", "fenced.extend"),
    heal = parts("rw.door", "fenced.counter", "fenced.counted", "fenced.heal"),
    release = parts("rw.door", "rw.leave", "fenced.let_go", "fenced.counter", "fenced.release"),
    handover = parts("fenced.replaced", "rw.door", "fenced.counter", "fenced.counted",
        "fenced.handover"),
    peek = parts "rw.write_peek",
    force = parts("rw.only_writer", "lock.force"),
    settle = script_text.read(PLAIN .. "settle"),
    asks = {
        current = { parts "fenced.current" },
        floor = { parts("fenced.run", "fenced.floor") },
        seed = { parts("fenced.run", "fenced.seed") },
        open = { parts "rw.open" },
    },
    keys = fenced_lock.keys,
    args = args,
    unseeded = fenced_lock.unseeded,
    channel = primitive.channel,
    gave_up = function(view)
        question.say(view.client, { primitive = view.primitive, script = "open",
            keys = writing.keys(view.client, view.name) })
    end,
    methods = fenced_lock.methods,
}
fenced.is_current = fenced_lock.is_current

--- See Client:getReadWriteLock.
function fenced.pair(client, name, opts)
    local wanted = opts and validate.options("options", opts, opts).fenced
    if wanted == nil then
        return read_write_lock.new(client, name, opts)
    end
    local others = {}
    for field, value in pairs(opts) do
        if field ~= "fenced" then
            others[field] = value
        end
    end
    local pair = read_write_lock.new(client, name, others)
    if validate.flag("fenced", wanted) then
        pair.writer = lock.new(client, fenced, name, others)
    end
    return pair
end

return fenced
