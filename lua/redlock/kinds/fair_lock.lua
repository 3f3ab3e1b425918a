--- The fair lock: waiters get it in the order in which they came.
--
-- It is a plain lock with a queue beside it on each server. A refused call draws a ticket, one more
-- than the largest that a majority has seen, and keeps it for the whole wait. Each attempt enters
-- the queues again, and a server grants the lock to the lowest ticket that came again in time. So a
-- call whose ticket reached a majority before another call began is served first; overlapping
-- calls may come in either order. Safety is the plain lock's: the queue decides only progress and
-- order.
--
-- The queue also keeps what a release needs to grant the lock to the next waiter. The release only
-- announces that, on a channel of the first in line, and never sends a value.

local primitive = require "redlock.kinds.primitive"
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local ipairs, tonumber, format, match = ipairs, tonumber, string.format, string.match
local max = math.max

local KEPT = 3                -- a place lasts this many times the longest pause between attempts

local PLAIN = "redlock.scripts.lock."

local FAIR = "redlock.scripts.fair."

local function script(name)
    return script_text.read("redlock.scripts.now", FAIR .. "queue", FAIR .. name)
end

-- Like script(), after a fast path for calls that find no queue.
local function with_short_way(name)
    return script_text.read(FAIR .. "alone_" .. name) .. script(name)
end

local function keys(client, name)
    local key = client.options.prefix .. name
    local own = "redlock:{" .. key .. "}:"
    return { key, own .. "queue", own .. "living", own .. "standing" }
end

local function args(view, wait)
    local ttl = format("%d", rounds.to_ms(KEPT * view.client.options.fallback))
    if not wait.ticket then
        return { "-", "0", ttl, "0" }
    end
    return { wait.id, format("%d", wait.ticket), ttl, format("%d", wait.n) }
end

-- After its first refusal by a majority the call draws its ticket.
local function refused(view, wait, answers)
    if wait.ticket or wait.left == 0 or #answers < view.client.quorum then
        return
    end
    local last = 0
    for _, answer in ipairs(answers) do
        last = max(last, tonumber(match(answer.data, "^%d+")) or 0)
    end
    wait.ticket = last + 1
end

local function gave_up(view, wait)
    if wait.ticket then
        local list = args(view, wait)
        question.say(view.client, { primitive = view.primitive, script = "leave",
            keys = keys(view.client, view.name),
            args = { "", "0", list[1], list[2], list[3], list[4] } })
    end
end

-- The channel of this waiter alone; without a ticket, that of the plain lock.
local function channel(client, name, wait)
    return primitive.channel(client, wait.ticket and name .. ":" .. wait.id or name)
end

return primitive.new {
    name = "fair lock",
    rivals = true,
    line = false,
    waits = true,
    everywhere = true,
    acquire = with_short_way "acquire",
    extend = script_text.read(PLAIN .. "extend"),
    heal = script_text.read(PLAIN .. "acquire"),
    release = with_short_way "release",
    peek = script_text.read(PLAIN .. "peek"),
    force = script_text.read(PLAIN .. "force"),
    settle = script_text.read(PLAIN .. "settle"),
    asks = { leave = { script "leave" } },
    keys = keys,
    args = args,
    channel = channel,
    refused = refused,
    gave_up = gave_up,
}
