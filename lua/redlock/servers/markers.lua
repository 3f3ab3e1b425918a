--- The markers of servers from Lua, for init and changes of servers: read and written one by one.

local ffi = require "ffi"
local floors = require "redlock.servers.floors"
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local floor, max, format, match, sub = math.floor, math.max, string.format, string.match, string.sub

local _M = {}

--- The key of a server's marker. Keys that belong to no lock are redlock:{server}:<kind>.
_M.KEY = "redlock:{server}:marker"

--- Replaces a marker.
_M.SET = script_text.own "marker.set"

-- Without a marker, or floors, or a list: "-".
local READ = [[
local life = string.match(redis.call('info', 'replication'), 'master_replid:(%x+)') or '-'
local kept = redis.pcall('hmget', (string.gsub(KEYS[1], 'marker$', 'floor')), 'base', 'most')
local list = redis.pcall('get', (string.gsub(KEYS[1], 'marker$', 'servers')))
local function word(text)
    return type(text) == 'string' and string.gsub(text, '%c', '') or '-'
end
local words = {string.sub(life, 1, 16), word(kept[1]), word(kept[2]), word(list)}
return {1, 0, table.concat(words, ' ') .. '\n' .. (redis.call('get', KEYS[1]) or '')}]]
local WRITE = "local function set()\n" .. _M.SET .. [[

end
local said = set()
return type(said) == 'table' and said or {1, 0, said}]]

local function cluster(client, what)
    local C = rounds.load()
    return ffi.string(C.rl_cluster(client.core, C[what]))
end

--- By what a client's cluster is named in markers; the hash of its list; and the list.
function _M.word(client)
    return cluster(client, "RL_CLUSTER_WORD")
end
function _M.hash(client)
    return cluster(client, "RL_CLUSTER_HASH")
end
function _M.list(client)
    return cluster(client, "RL_CLUSTER_LIST")
end

-- INC, STATE, REPLID and CLUSTER: see c/core/base/marker.h.
local WORDS = "^(%x+) v4 (%a) (%S+) %d+ %d+ (%S+)"

-- What a server said. alive: the marker is of its present life; floor: the largest fencing token
-- that it may have given out; taught: that is all that was given out where it voted.
local function parse(client, said)
    local life, base, most, list, text = match(said, "^(%S+) (%S+) (%S+) (%C*)\n(.*)$")
    local inc, state, of, word = match(text, WORDS)
    local limit, run = tonumber(floors.limit(client)), sub(base, 1, 8)
    local function number(kept)
        local n = tonumber(match(kept, "^%d+$", 9)) or 0
        return n + 1 < limit and n or 0
    end
    return { life = life, text = text, inc = inc, state = state, alive = of == life,
        cluster = word, servers = list ~= "-" and list or "",
        floor = max(number(base), number(most)), taught = number(base) > 0
            and (of == life and run == sub(inc, 1, 8)
            or not client.guarded and run == sub(life, 1, 8)) }
end

--- Asks all servers at once.
-- @return a list of { life, text, inc, state, alive, cluster, servers (the list beside it),
--   floor, taught }; without a marker text is "", and its words are nil; or { code, message }: no
--   answer; or nil and an error
function _M.ask(client)
    local asked = {}
    for place = 1, client.size do
        asked[place] = { body = READ, place = place, keys = { _M.KEY } }
    end
    local said, err = question.ask_each(client, asked)
    for place, answer in ipairs(said or {}) do
        said[place] = answer.data and parse(client, answer.data) or answer
    end
    return said, err
end

--- Replaces the marker of one server, if it is as read. seen: from ask(); state: of a new memory,
-- whose quarantine begins; nil: of the same one, if it has a marker; list: the servers that the
-- word stands for; base: for its floors, or nil.
-- @return whether it was written
function _M.write(client, place, seen, state, word, list, base)
    local o = client.options
    local function half()
        return floor(rounds.random(client) * 2 ^ 32)
    end
    local same = not state and seen.alive
    local inc = same and seen.inc or format("%08x%08x", half(), half())
    local text = format("%s v4 %s %s %d %d %s", inc, state or same and seen.state == "a"
        and "a" or "l", seen.life, o.nodes[place].db or 0, rounds.to_ms(o.max_lease), word)
    local said = question.ask(client, { body = WRITE, place = place, keys = { _M.KEY },
        args = { seen.text, text, list, "", "0", base or "" } })
    return sub(said.data or "", 1, #text) == text
end

return _M
