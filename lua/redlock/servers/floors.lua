--- Floors of fencing tokens: below them a server that lost a counter never counts again. The core
-- teaches servers that have none (c/core/rounds/teach.h).

local answers = require "redlock.runtime.answers"
local limits = require "redlock.runtime.limits"
local node_codes = require "redlock.runtime.node_codes"
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local ipairs, tonumber, format, insert = ipairs, tonumber, string.format, table.insert

local _M = {}

_M.KEY = "redlock:{server}:floor"

--- How many floors a server has, besides the base of all: names that share one only skip numbers.
_M.BUCKETS = 1024

-- Seconds that a server keeps the counter of a name that nobody locks: at least any max_lease.
-- Its tokens then continue from the floor.
_M.COUNTER_TTL = limits.DAY

--- Tells what a server knows.
_M.TELL = script_text.own "fenced.tell"

--- A bound that no counter can have reached, as text for the scripts.
function _M.limit(client)
    if not client.token_limit then
        client.token_limit = format("%.0f", tonumber(rounds.load().rl_token_limit(client.core)))
    end
    return client.token_limit
end

-- What each vote of the script means, for people, and the warning.
local WORDS = { [-1] = "none", [0] = "none", [1] = "all", [2] = "out of range" }
local NONE = "it does not know the fencing tokens of before; while it does not, let no other "
    .. "server restart (redlock check --wait teaches it)"
local WILD = "it counts fencing tokens from %.0f, years ahead of every clock, and has no vote on "
    .. "them; if too few other servers can correct it, delete redlock:{server}:floor on it"

--- What the servers know of tokens, by rows of client:check(): adds to seen[place].floors "all",
-- "none", "out of range" or "no answer" (nothing where the user may not look), and to its findings
-- where the server votes and has none, or some out of range.
function _M.check(client, rows, seen)
    local asked = { subject = "check", body = _M.TELL, keys = { _M.KEY },
        args = { _M.limit(client), client.guarded and "1" or "" } }
    local round = question.begin(client, asked)
    if not round or not rounds.await(client, round) then
        rounds.free(round)
        return
    end
    for place, row in ipairs(answers.rows(client, round)) do
        local code = node_codes[row.code]
        seen[place].floors = rows[place].ready and code and code.silent and "no answer" or nil
    end
    local told = answers.of(client, round)
    rounds.free(round)
    for _, answer in ipairs(told) do
        local place, word = answer.node, WORDS[answer.vote]
        seen[place].floors = word
        if rows[place].verdict ~= "error" and (answer.vote == 2
            or word == "none" and client.guarded) then
            insert(seen[place].findings, { kind = "tokens", verdict = "warning",
                message = answer.vote == 2 and format(WILD, answer.info) or NONE })
        end
    end
end

return _M
