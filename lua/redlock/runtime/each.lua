--- Sends many questions at once, each with its own KEYS and ARGV, to single servers or to all.

local answers = require "redlock.runtime.answers"
local ffi = require "ffi"
local load = require("redlock.runtime.ffi").load
local round_error = require "redlock.runtime.round_error"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"
local ffi_values = require "redlock.runtime.ffi_values"

local error, ipairs, pcall, tonumber = error, ipairs, pcall, tonumber
local ffi_new, ffi_string = ffi.new, ffi.string

local _M = {}

local ROOM = 65536           -- bytes for an answer; a longer one enlarges the buffer
local room, size
local node_out

local function text_of(C, round, i)
    if not room then
        room, size = ffi_new("char[?]", ROOM), ROOM
    end
    local len = tonumber(C.rl_round_text(round, i, room, size))
    if len > size then
        room, size = ffi_new("char[?]", len), len
        C.rl_round_text(round, i, room, size)
    end
    return ffi_string(room, len)
end

-- A server's answer. Frees the round.
local function take(client, round, place)
    local C = load()
    node_out = node_out or ffi_new "rl_node_result"
    C.rl_round_node(round, place - 1, node_out)
    local said
    if node_out.answered ~= 0 then
        said = { vote = node_out.vote, info = tonumber(node_out.extra),
            data = text_of(C, round, place - 1) }
    else
        said = round_error.row(client, round, place)
    end
    C.rl_round_free(round)
    return said
end

-- Frees the rounds of a list from the k-th on. false is a round that could not start.
local function free_from(k, begun)
    for later = k, #begun do
        rounds.free(begun[later] or nil)
    end
end

-- Waits for the k-th round. If the wait raises (Ctrl-C, a cancelled future), frees the later ones.
local function await(client, begun, k)
    local ok, granted = pcall(rounds.await, client, begun[k])
    if not ok then
        free_from(k + 1, begun)
        error(granted, 0)
    end
    return granted
end

local function finish(client, asked, begun)
    local said = {}
    for k = 1, #asked do
        if begun[k] then
            await(client, begun, k)
            said[k] = take(client, begun[k], asked[k].place)
        else
            said[k] = { code = client.closed and "closed" or "pending", message = "has no vote" }
        end
    end
    return said
end

--- Runs a script on single servers, and waits until each has answered or failed.
-- @param client  whose servers they are
-- @param body    the text of the script
-- @param asked   a list of { place = which server, from 1, keys, args }
-- @return for each { vote, info, data = all of it }, or { code, message } without an answer
function _M.ask(client, body, asked)
    local C, begun = load(), {}
    local id = script_text.register(C, client, "a question", body)
    for k, one in ipairs(asked) do
        local nkeys = ffi_values.fill(ffi_values.keys, one.keys)
        local nargs = ffi_values.fill(ffi_values.args, one.args)
        local round = C.rl_ask_one(client.core, one.place - 1, id, ffi_values.keys, nkeys,
            ffi_values.args, nargs, rounds.FOREVER * 1000)
        begun[k] = round ~= nil and round
    end
    return finish(client, asked, begun)
end

--- Like ask(), for the CLIENT LIST of ordinary connections.
function _M.ask_clients(client, asked)
    local C, begun = load(), {}
    for k, one in ipairs(asked) do
        local round = C.rl_ask_clients(client.core, one.place - 1, rounds.FOREVER * 1000)
        begun[k] = round ~= nil and round
    end
    return finish(client, asked, begun)
end

--- Runs one of a primitive's further scripts on all servers, as rounds.ask() does, once for each
-- of several ARGV.
-- @param client   whose servers they are
-- @param subject  what an error is about
-- @param prim     the primitive
-- @param script   its name
-- @param keys     the KEYS
-- @param asked    a list of ARGV
-- @param within   seconds that the rounds may last
-- @return a list of what rounds.ask() returns for each; or nil and the error of one of them
function _M.ask_all(client, subject, prim, script, keys, asked, within)
    local begun, said = {}, {}
    for k, args in ipairs(asked) do
        begun[k] = rounds.begin_ask(client, prim, script, keys, args, within) or false
    end
    for k = 1, #begun do
        local round = begun[k] or nil
        if not round or not await(client, begun, k) then
            free_from(k + 1, begun)
            return nil, rounds.failure(client, subject, round)
        end
        said[k] = answers.take(client, round)
    end
    return said
end

return _M
