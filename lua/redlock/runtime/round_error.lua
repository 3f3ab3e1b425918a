--- Makes the error of a failed round, server by server.

local ffi = require "ffi"
local errors = require "redlock.runtime.errors"
local load = require("redlock.runtime.ffi").load

local ipairs, tonumber = ipairs, tonumber
local format = string.format
local ffi_new, ffi_string = ffi.new, ffi.string

local _M = {}

local node_out

--- @return the name of an outcome's code, as in errors
function _M.code_name(outcome)
    return ffi_string(load().rl_code_name(outcome))
end
local code_name = _M.code_name

-- The core's text on why a node gives no votes; nil: none.
local function text_of(client, i, text)
    text[0] = 0
    if client.core then
        load().rl_node_text(client.core, i - 1, text)
    end
    return text[0] ~= 0 and ffi_string(text) or nil
end

-- The code and message for a node whose answer the decision did not need.
local function without(client, i, text)
    if node_out.ready ~= 0 then
        return "pending", node_out.asked ~= 0 and "asked, no answer when it was decided"
            or "connected, not asked before it was decided"
    elseif node_out.lost == 0 then
        return "pending", "not connected"
    end
    local code = code_name(node_out.lost)
    return code, text_of(client, i, text) or code
end

-- Messages for connected nodes.
local CONNECTED = {
    timeout = "connected, but no answer in time",
    overload = "connected, but too far behind with its answers",
}

local function read_node(client, round, i, text)
    local C = load()
    node_out = node_out or ffi_new "rl_node_result"
    C.rl_round_node(round, i - 1, node_out)
    local row = { node = client.options.nodes[i].label }
    if node_out.answered ~= 0 then
        row.code, row.vote = "ok", node_out.vote
        if node_out.vote == 0 and node_out.extra > 0 then
            row.message = format("no, for %.3f s more", tonumber(node_out.extra) / 1000)
        else
            row.message = node_out.vote > 0 and "yes" or node_out.vote < 0
                and "somebody else's" or "no"
        end
    elseif node_out.code == 0 then
        row.code, row.message = without(client, i, text)
    else
        row.code = code_name(node_out.code)
        -- The text of a connected node is about an earlier answer.
        row.message = node_out.ready ~= 0 and CONNECTED[row.code] or text_of(client, i, text)
            or row.code
    end
    return row
end

--- A node's answer, or why it gave none: { node, code, message, vote }.
-- @param client  the client of the round
-- @param round   the round, which is done
-- @param i       which node, from 1
function _M.row(client, round, i)
    return read_node(client, round, i, ffi_new("char[?]", load().RL_TEXT_MAX))
end

local SEEDING = "; a user of fenced locks needs all ACL rules that examples/access/README.md lists"

-- Explains why a node is still unseeded: the user lacks permission, or its floor is out of range.
local function explain(row, seeding)
    if row.code == "unseeded" and seeding and seeding.code == "noperm" then
        row.code, row.message = "noperm", seeding.message .. SEEDING
    elseif row.code == "unseeded" and seeding and seeding.code == "unseeded" then
        row.message = seeding.message
    end
    return row
end

local function of_node(seeding, label)
    for _, row in ipairs(seeding and seeding.nodes or {}) do
        if row.node == label then
            return row
        end
    end
end

--- The error of a round that is done. Frees the round.
-- @param client   the client of the round
-- @param subject  what the error is about
-- @param round    the round; nil: it could not start
-- @param seeding  the error of the primitive's unseeded(), or nil
function _M.of(client, subject, round, seeding)
    if round == nil then
        return errors.new(client.closed and "closed" or "nomem", subject)
    end
    local C, rows = load(), {}
    local text = ffi_new("char[?]", C.RL_TEXT_MAX)
    for i = 1, client.size do
        local row = read_node(client, round, i, text)
        rows[i] = explain(row, of_node(seeding, row.node))
    end
    local code = code_name(C.rl_round_outcome(round))
    C.rl_round_free(round)
    return errors.new(code, subject, rows)
end

return _M
