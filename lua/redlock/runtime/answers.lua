--- The servers' answers in a round, and what they suggest for the next attempt.

local bit = require "bit"
local ffi = require "ffi"
local ffi_core = require "redlock.runtime.ffi"

local tonumber, ffi_string = tonumber, ffi.string
local band, lshift = bit.band, bit.lshift

local _M = {}

local C, node_out

local function load()
    if not C then
        C, node_out = ffi_core.load(), ffi.new "rl_node_result"
    end
    return C
end

--- @return the answers in a round: a list of { node, vote, info, data, agreed }
function _M.of(client, round)
    local answers, agreed = {}, load().rl_round_agreed(round)
    for i = 0, client.size - 1 do
        C.rl_round_node(round, i, node_out)
        if node_out.answered ~= 0 then
            answers[#answers + 1] = { node = i + 1, vote = node_out.vote,
                info = tonumber(node_out.extra), agreed = band(agreed, lshift(1, i)) ~= 0,
                data = ffi_string(node_out.data, node_out.data_len) }
        end
    end
    return answers
end

--- Like of(), and frees the round.
function _M.take(client, round)
    local answers = _M.of(client, round)
    C.rl_round_free(round)
    return answers
end

--- What a failed attempt says about when to try again.
-- @return seconds until a majority may be free, or nil: unknown
function _M.free_in(round)
    local free_in = tonumber(load().rl_round_free_in_ms(round))
    return free_in >= 0 and free_in / 1000 or nil
end

--- Compares the holders that the servers name when they refuse an attempt with those they named
-- before.
-- @param client  the client of the attempt
-- @param round   of the attempt
-- @param said    list, by server, of the holder it named last; updated
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

return _M
