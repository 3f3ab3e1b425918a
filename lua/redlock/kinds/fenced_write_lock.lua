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
local script = require("redlock.runtime.script_text").own
local validate = require "redlock.runtime.validate"

local each = pairs            -- for finalizers: see finalizers.lua
local writing = read_write_lock.writing

local function args(view, wait)
    local list = fenced_lock.args(view)
    list[#list + 1] = writing.args(view, wait)[1]
    return list
end

local fenced = primitive.new {
    name = "fenced write lock",
    like = writing,
    vote = "largest",
    knows_run = true,
    waits = true,
    acquire = script("rw.door", "fenced.counter", "rw.close", "fenced.voting", "fenced.acquire",
        "lock.shape", "lock.refused"),
    confirm = script("rw.door", "fenced.counter", "fenced.counted", "fenced.confirm"),
    extend = script("rw.door", "fenced.counter", "fenced.counted", "fenced.extend"),
    heal = script("rw.door", "fenced.counter", "fenced.counted", "fenced.heal"),
    release = script("rw.door", "rw.leave", "fenced.let_go", "fenced.counter", "fenced.release"),
    import = script("fenced.replaced", "rw.door", "fenced.counter", "fenced.voting",
        "fenced.import"),
    asks = {
        open = { script "rw.open" },
    },
    keys = fenced_lock.keys,
    args = args,
    gave_up = writing.gave_up,
    methods = fenced_lock.methods,
}

function fenced.pair(client, name, opts)
    local wanted = validate.options("options", opts, opts or {}).fenced
    if wanted == nil then
        return read_write_lock.new(client, name, opts)
    end
    local others = {}
    for field, value in each(opts) do
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
