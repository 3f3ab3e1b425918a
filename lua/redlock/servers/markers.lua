--- The markers of servers from Lua, for init and changes of servers: read and written one by one.

local ffi = require "ffi"
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local floor, format, match, sub = math.floor, string.format, string.match, string.sub

local _M = {}

--- The key of a server's marker. Keys that belong to no lock are redlock:{server}:<kind>.
_M.KEY = "redlock:{server}:marker"

--- Replaces a marker; kept here, as the core only points to it.
_M.SET = script_text.own "marker.set"

local READ = [[
local life = string.match(redis.call('info', 'replication'), 'master_replid:(%x+)') or '-'
local list = redis.pcall('get', (string.gsub(KEYS[1], 'marker$', 'servers')))
list = type(list) == 'string' and string.gsub(list, '%c', '') or ''
local marker = redis.call('get', KEYS[1]) or ''
return {1, 0, string.sub(life, 1, 16) .. ' ' .. list .. '\n' .. marker}]]
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

--- Asks all servers at once.
-- @return a list of { life, text, inc, state, cluster, servers: the list beside it }; without a
--   marker text is "", and the words are nil; or { code, message }: no answer; or nil and an error
function _M.read(client)
    local asked = {}
    for place = 1, client.size do
        asked[place] = { body = READ, place = place, keys = { _M.KEY } }
    end
    local said, err = question.ask_each(client, asked)
    for place, answer in ipairs(said or {}) do
        if answer.data then
            local life, list, text = match(answer.data, "^(%S+) (%C*)\n(.*)$")
            local inc, state, word = match(text, "^(%x+) v4 (%a) %S+ %d+ %d+ (%S+)")
            said[place] = { life = life, text = text, inc = inc, state = state, cluster = word,
                servers = list }
        end
    end
    return said, err
end

--- Replaces the marker of one server, if it is as read, by one with a new memory: a quarantine
-- begins. seen: from read(); list: the servers that the word stands for; base: for its floors, as
-- text, or nil.
-- @return whether it was written
function _M.write(client, place, seen, state, word, list, base)
    local o = client.options
    local function half()
        return floor(rounds.random(client) * 2 ^ 32)
    end
    local text = format("%08x%08x v4 %s %s %d %d %s", half(), half(), state, seen.life,
        o.nodes[place].db or 0, rounds.to_ms(o.max_lease), word)
    local said = question.ask(client, { body = WRITE, place = place, keys = { _M.KEY },
        args = { seen.text, text, list, "", "0", base or "" } })
    return sub(said.data or "", 1, #text) == text
end

return _M
