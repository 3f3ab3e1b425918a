--- client:connect() and client:health(): whether a majority of the servers may vote.
--
-- The room servers/ has what a client knows of its servers: options, passwords, health, admission
-- and the floors of tokens. It uses runtime/, and knows no locks.

local ffi = require "ffi"
local errors = require "redlock.runtime.errors"
local health = require "redlock.servers.health"
local quorum = require("redlock.runtime.limits").quorum
local rounds = require "redlock.runtime.rounds"

local ipairs, max, min = ipairs, math.max, math.min

local _M = {}

local PAUSE, PAUSE_MAX = 0.001, 0.05      -- seconds between two looks; doubles each time
local EVERY = 1                           -- seconds between two questions of health()

-- The core opens a connection for a round that waits for it, and again after a failure: so one
-- round is always open that asks all servers.
-- @return `round`, or the next one; nil: out of memory
local function keep_asking(client, round)
    local C = rounds.load()
    if round and not rounds.is_done(round) then
        return round
    end
    local fresh = C.rl_check(client.core)
    return fresh ~= nil and ffi.gc(fresh, C.rl_round_free) or nil
end

-- @return how many servers may vote; how many have neither connected nor failed yet; whether one is
--   connected that has not answered yet
local function count(rows)
    local voting, open, silent = 0, 0, false
    for _, row in ipairs(rows) do
        local unknown = row.guard == "unknown" and not row.marker_code
        if not row.ready then
            open = open + (row.lost and 0 or 1)
            silent = silent or row.code == "timeout" and not row.lost
        elseif row.verdict ~= "error" then
            voting, open = voting + (unknown and 0 or 1), open + (unknown and 1 or 0)
        end
    end
    return voting, open, silent
end

-- @return the servers' rows, as they have answered since `since`; nil: the client is closed
local function poll_rows(client, since)
    client.credentials:poll()            -- a password function may wait
    if not client.closed then
        client.holds:poll()
    end
    return not client.closed and health.rows(client, since) or nil
end

local function wanted(client)
    return quorum(client.size) + client.options.margin
end

function _M.connect(client, seconds)
    local began, pause, round = client.now(), PAUSE, nil
    local ends, answers_due = began + seconds, began + client.options.timeout
    local rows = poll_rows(client, began)
    while rows do
        local voting, open, silent = count(rows)
        local enough = voting >= wanted(client)
        local left = (silent and max(ends, answers_due) or ends) - client.now()
        if enough and (open == 0 or left <= 0) then
            return true
        elseif left <= 0 then
            return nil, errors.new("no_quorum", "connect", health.complaints(rows))
        elseif rounds.is_ending(client) then
            break
        end
        round = keep_asking(client, round)
        rounds.sleep(client, min(pause, left))
        pause = min(2 * pause, PAUSE_MAX)
        rows = poll_rows(client, began)
    end
    return nil, errors.new("closed", "connect")
end

-- Whether the last question of health(), client.asked = { at, round }, is of this second.
local function was_asked(client)
    return client.asked and client.now() < client.asked.at + EVERY
end

-- Asks, if it is time.
local function ask(client)
    if not was_asked(client) then
        rounds.sleep(client, PAUSE)      -- a plain host reads only now what came before
        if not (client.closed or was_asked(client)) then
            client.asked = { at = client.now(), round = keep_asking(client) }
        end
    end
end

function _M.health(client)
    ask(client)
    local asked, pause, again = client.asked, PAUSE, false
    while true do
        local left = asked and asked.round and not rounds.is_done(asked.round)
            and asked.at + client.options.timeout - client.now() or 0
        local rows = poll_rows(client, asked and asked.at)
        if not rows then
            return nil, errors.new("closed", "health")
        end
        local voting, open, silent = count(rows)
        if voting >= wanted(client) then
            return true
        elseif left > 0 then
            rounds.sleep(client, min(pause, left))
            pause = min(2 * pause, PAUSE_MAX)
        elseif open == client.size and not (silent or again) then
            client.asked, again = nil, true      -- the process that asked was this one's parent
            ask(client)
            asked = client.asked
        else
            return nil, errors.new("no_quorum", "health", health.complaints(rows))
        end
    end
end

return _M
