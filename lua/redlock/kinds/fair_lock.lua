--- The fair lock: waiters get it in the order in which they came.
--
-- It is a plain lock with a queue beside it on each server. A refused call draws a ticket, one more
-- than the largest that a majority has seen, and keeps it for the whole wait. Each attempt enters
-- the queues again, and a server grants the lock to the lowest ticket that came again in time. So a
-- call whose ticket reached a majority before another call began is served first; overlapping
-- calls may come in either order. Safety is the plain lock's: the queue decides only progress and
-- order.
--
-- In a process one call asks for all its waiters (lock/local_queue.lua): each refusal gives tickets
-- to those that had joined before it asked, and one script keeps the places of MANY. Each waiter
-- has a place of its own, so that the order of arrival holds across processes.
--
-- The queue also keeps what a release needs to grant the lock to the next waiter. The release only
-- announces that, on a channel of the first in line, and never sends a value.

local plain_lock = require "redlock.kinds.plain_lock"
local primitive = require "redlock.kinds.primitive"
local local_queue = require "redlock.lock.local_queue"
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local script = require("redlock.runtime.script_text").own

local ipairs, tonumber, format, match = ipairs, tonumber, string.format, string.match
local concat, max = table.concat, math.max

local KEPT = 3                -- a place lasts this many times the longest pause between attempts
local MANY = 200              -- places in a request

local function with_queue(name)
    return script("now", "fair.queue", "fair." .. name)
end

local function keys(client, name)
    local key = client.options.prefix .. name
    local own = "redlock:{" .. key .. "}:"
    return { key, own .. "queue", own .. "living", own .. "standing" }
end

local function ttl_of(view)
    return format("%d", rounds.to_ms(KEPT * view.client.options.fallback))
end

local function args(view, wait)
    local ttl = ttl_of(view)
    local_queue.ask(view, wait)
    if not wait.ticket then
        return { "-", "0", ttl, "0" }
    end
    return { wait.id, format("%d", wait.ticket), ttl, format("%d", wait.n) }
end

-- Gives tickets, above `last`, to those of the calls for which the servers were asked that have
-- none.
local function draw(queue, asked_for, last)
    for i = queue.first, queue.last do
        local place = queue[i]
        local wait = place.wait
        if wait.ticket then
            last = max(last, wait.ticket)
        elseif not place.gone and place.number <= asked_for and wait.left ~= 0 then
            last = last + 1
            wait.ticket = last
        end
    end
end

-- Keeps the places of the calls that wait behind the first one, which comes again itself.
local function keep_places(view, wait, queue)
    local client, list = view.client, {}
    local now = client.now()
    local function send()
        question.send(client, { primitive = view.primitive, script = "stand",
            keys = keys(client, view.name),
            args = { "", "0", wait.id, "0", ttl_of(view), "0", concat(list) } })
        list = {}
    end
    for i = queue.first + 1, queue.last do
        local place = queue[i]
        local its = place.wait
        if its.ticket and not place.gone and now >= (its.due or 0) then
            its.due = now + client.options.fallback / 2
            list[#list + 1] = format("%s %d%s", its.id, its.ticket,
                place.lock.label == view.label and "=" or "-")
            if #list == MANY then
                send()
            end
        end
    end
    if #list > 0 then
        send()
    end
end

-- After refusals by a majority (a grant tells no ticket) those who wait draw one, and keep places.
local function refused(view, wait, answers)
    local queue, told, last = local_queue.led_by(view, wait), 0, 0
    queue = queue or { first = 1, last = 1, { wait = wait, number = 0 } }
    for _, answer in ipairs(answers) do
        local ticket = tonumber(match(answer.data, "^%d+"))
        told, last = told + (ticket and 1 or 0), max(last, ticket or 0)
    end
    if told >= view.client.quorum then
        draw(queue, wait.asked_for or 0, last)
    end
    keep_places(view, wait, queue)
end

local function gave_up(view, wait)
    if wait.ticket then
        local list = args(view, wait)
        question.send(view.client, { primitive = view.primitive, script = "leave",
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
    like = plain_lock,
    places = true,
    waits = true,
    everywhere = true,
    acquire = script("fair.alone_acquire", "now", "fair.queue", "lock.shape", "fair.acquire"),
    heal = plain_lock.acquire_script,
    release = script("fair.alone_release", "now", "fair.queue", "fair.release", "lock.shape",
        "lock.not_ours"),
    asks = { leave = { with_queue "leave" }, stand = { with_queue "stand" } },
    keys = keys,
    args = args,
    channel = channel,
    refused = refused,
    gave_up = gave_up,
}
