--- Seals of servers that are to be restarted: they vote again at once when they come back.
--
-- A majority of the other servers notes a number first; then the server's marker gets it, and the
-- server stops to vote. What comes back with that marker has forgotten nothing, as nothing was
-- granted behind it; the core opens it (seal.h), which spends the number.

local errors = require "redlock.core.errors"
local new_nonce = require "redlock.core.nonce"
local places = require "redlock.core.places"
local quorum = require "redlock.core.quorum"
local rounds = require "redlock.core.rounds"
local script_text = require "redlock.core.script_text"

local ipairs = ipairs
local format, sub = string.format, string.sub

local _M = {}

local KEYS = { "redlock:{server}:marker" }
local STATE = 21              -- where a marker has its state

local function refuse(...)
    return nil, errors.new("config", format(...))
end

-- The place of the server that is meant, and its name.
local function find(client, name)
    for i = 1, places.count(client) do
        local label = places.label(client, i)
        if label and (name == i or name == label or name == sub(label, 9)
            and sub(label, 1, 8) == "redis://") then
            return i, label
        end
    end
end

local function ask(client, ...)
    local body = script_text.read "redlock.scripts.marker.seal"
    return rounds.ask_all(client, "seal", body, KEYS, { ... })
end

--- See client:seal.
-- @param client  which is open
-- @param name    of the node, as client:check() says it; or its number
function _M.seal(client, name)
    local target, label = find(client, name)
    local q = quorum(places.voters(client))
    if not target then
        return refuse("seal: %s is none of the servers", tostring(name))
    elseif not client.guarded or places.voters(client) < 3 then
        return refuse("seal: it takes the restart guard, and three servers or more")
    end
    local looked, err = ask(client, "look")
    local marker
    for _, answer in ipairs(looked or {}) do
        if answer.node == target and answer.vote == 1 then
            marker = answer.data
        end
    end
    if not marker then
        return nil, err or errors.new("config", format("seal: %s does not vote now", label))
    end
    local nonce, inc = new_nonce(), sub(marker, 1, 16)
    local noted, n = ask(client, "note", inc, nonce), 0
    for _, answer in ipairs(noted or {}) do
        n = n + (answer.node ~= target and answer.vote == 1 and 1 or 0)
    end
    if n < q then
        return refuse("seal: %d of the other servers noted it, and %d must, for they open it: "
            .. "those that vote, if the user may write redlock:{server}:seals; see redlock check",
            n, q)
    end
    local sealed = format("%ss%s %s", sub(marker, 1, STATE - 1), sub(marker, STATE + 1), nonce)
    local closed, why = ask(client, "close", marker, sealed)
    for _, answer in ipairs(closed or {}) do
        if answer.node == target and answer.vote == 1 then
            return true
        end
    end
    return nil, why or errors.new("unknown", "seal")
end

return _M
