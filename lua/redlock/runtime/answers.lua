--- The servers' answers in a round, what they suggest for the next attempt, and the error of a
-- round that failed, server by server.

local ffi = require "ffi"
local card = require "redlock.text.card"
local errors = require "redlock.runtime.errors"
local ffi_core = require "redlock.runtime.ffi"
local reasons = require "redlock.runtime.reasons"

local ipairs, tonumber = ipairs, tonumber
local ffi_new, ffi_string, format = ffi.new, ffi.string, string.format
local concat, find = table.concat, string.find

local _M = {}

local C, node_out, info_out

local function load()
    if not C then
        C, node_out = ffi_core.load(), ffi_new "rl_node_result"
        info_out = ffi_new "rl_node_info"
    end
    return C
end

--- @return the answers in a round: a list of { node, vote, info, data, agreed }
function _M.of(client, round)
    local answers = {}
    load()
    for i = 0, client.size - 1 do
        C.rl_round_node(round, i, node_out)
        if node_out.answered ~= 0 then
            answers[#answers + 1] = { node = i + 1, vote = node_out.vote,
                info = tonumber(node_out.extra), agreed = node_out.agreed ~= 0,
                data = ffi_string(node_out.data, node_out.data_len) }
        end
    end
    return answers
end

--- @return true: the answer is yes; else nil, as for limits.majority()
function _M.says_yes(answer)
    return answer.vote > 0 or nil
end

function _M.yes(list)
    local yes = 0
    for i = 1, #list do
        yes = yes + (list[i].vote > 0 and 1 or 0)
    end
    return yes
end

--- The card after the first `digits` digits of what a server says of a holder; nil: none.
-- @return as card.read(), without the client's passwords
function _M.card(client, who, digits)
    local its = card.behind(who, digits)
    if its then
        local label = ffi_new("char[?]", #its.label + 1, its.label)
        load().rl_hide_passwords(client.core, label)
        its.label = ffi_string(label)
    end
    return its
end

--- What a failed attempt says about when to try again.
-- @return seconds until a majority may be free, or nil: unknown
function _M.free_in(round)
    local free_in = tonumber(load().rl_round_free_in_ms(round))
    return free_in >= 0 and free_in / 1000 or nil
end

--- Compares the holders that the servers name when they refuse an attempt with those they named
-- before: `said`, a list by server, which is updated.
-- @return how many servers name the same holder; and how many another one, or none
function _M.compare_holders(client, round, said)
    local same, new = 0, 0
    load()
    for i = 1, client.size do
        C.rl_round_node(round, i - 1, node_out)
        if node_out.answered ~= 0 and node_out.vote == 0 then
            local who = node_out.data_len > 0 and ffi_string(node_out.data, node_out.data_len)
            if who and who == said[i] then
                same = same + 1
            else
                new, said[i] = new + 1, who
            end
        end
    end
    return same, new
end

-- ---- one by one ------------------------------------------------------------------

--- @return the name of an outcome's code, as in errors
function _M.code_name(outcome)
    return ffi_string(load().rl_code_name(outcome))
end

--- What the core knows of server i: an rl_node_info, which the next call overwrites.
function _M.node_info(client, i)
    load().rl_node_get_info(client.core, i - 1, info_out)
    return info_out
end

-- The code, message and reason of a node whose answer the decision did not need.
local function without(client, i)
    local info = _M.node_info(client, i)
    if info.stats.ready ~= 0 then
        return "pending", node_out.asked ~= 0 and "asked; it was decided before its answer came"
            or "connected; it was decided before it was asked"
    elseif info.lost == 0 then
        return "pending", "not connected"
    end
    return _M.code_name(info.lost), reasons.text(client, i, info)
end

-- Messages for connected nodes.
local CONNECTED = {
    timeout = "connected, but no answer in time",
    overload = "connected, but too far behind with its answers",
}

-- A node's answer, or why it gave none: { node, code, message, why, vote }.
local function read_node(client, round, i)
    load().rl_round_node(round, i - 1, node_out)
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
        row.code, row.message, row.why = without(client, i)
    else
        local info = _M.node_info(client, i)
        row.code = _M.code_name(node_out.code)
        -- The text of a connected node is about an earlier answer.
        row.message, row.why = reasons.text(client, i, info, node_out.why)
        row.message = info.stats.ready ~= 0 and CONNECTED[row.code] or row.message
    end
    return row
end

--- The answer of server `place` alone, in full. Frees the round.
-- @return { vote, info, data }; or { node, code, message }: it gave none
function _M.take_one(client, round, place)
    local answer = read_node(client, round, place)
    if answer.vote then
        answer = { vote = answer.vote, info = tonumber(node_out.extra),
            data = ffi_string(node_out.data, node_out.data_len) }
    end
    C.rl_round_free(round)
    return answer
end

local SEEDING = "; a user of fenced locks needs all ACL rules that examples/access/README.md lists"

-- The servers but the i-th that may know tokens and told nothing: a text; nil: all told.
local function silent(lesson, i)
    local labels = {}
    for k, row in ipairs(lesson) do
        labels[#labels + 1] = k ~= i and not row.vote and row.node or nil
    end
    return #labels > 0 and concat(labels, ", ") or nil
end

-- Explains why row i is still unseeded, by what rounds.teach() has returned.
local function explain(client, row, lesson, i)
    local told, may_know, info = lesson[i], silent(lesson, i), _M.node_info(client, i)
    if info.marker_code ~= 0 then        -- the server refused to learn
        row.code = _M.code_name(info.marker_code)
        row.message = row.code == "noperm" and row.code .. SEEDING
            or reasons.text(client, i, info, C.RL_WHY_MARKER_REFUSED)
    elseif told.code == "noperm" then
        row.code, row.message = "noperm", told.message .. SEEDING
    elseif told.vote == 2 then
        row.message = "it counts fencing tokens years ahead of every clock; if too few other "
            .. "servers can correct it, delete redlock:{server}:floor on it"
    elseif info.clock == 0 and not may_know then
        row.message, row.why = reasons.text(client, i, info, C.RL_WHY_NO_TIME)
    elseif may_know then
        row.message = format("it forgot the fencing tokens, and %s, which may know them, %s not "
            .. "answer: start %s, or replace it by an empty server; plain locks work", may_know,
            find(may_know, ", ", 1, true) and "do" or "does", may_know)
    end
end

--- What each node answered, or why it did not, as a list of { node, code, message, vote }.
function _M.rows(client, round)
    local rows = {}
    for i = 1, client.size do
        rows[i] = read_node(client, round, i)
    end
    return rows
end

--- The error of a round that is done, about a subject; nil: the round could not start. Frees the
-- round. lesson: what rounds.teach() returned before, or nil.
function _M.failure(client, subject, round, lesson)
    if round == nil then
        return errors.new(client.closed and "closed" or "nomem", subject)
    end
    local rows = _M.rows(client, round)
    for i, row in ipairs(lesson and rows or {}) do
        if row.code == "unseeded" then
            explain(client, row, lesson, i)
        end
    end
    local code = _M.code_name(C.rl_round_outcome(round))
    C.rl_round_free(round)
    return errors.new(code, subject, code ~= "unsupported" and rows or nil)    -- none was asked
end

return _M
