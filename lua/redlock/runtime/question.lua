--- Asks the servers something: all of them, or a single one. A question is a table of
--   primitive, script  one of a primitive's further scripts ("peek"), which is asked until a
--                      majority has given the same answer, or no longer can
--   body               or the text of a script, which is asked until each server has answered or
--                      failed
--   place              of a body: the only server that is asked, from 1
--   clients            true: asks that server for its CLIENT LIST of ordinary connections instead
--   keys, args         the KEYS and ARGV; args may be nil: none
--   subject            what an error is about; with `place` there is none
--   within             seconds; nil: the servers' time-outs alone bound it
--   op                 as for rounds.acquire(), or nil

local answers = require "redlock.runtime.answers"
local errors = require "redlock.runtime.errors"
local ffi_values = require "redlock.runtime.ffi_values"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local error, ipairs, max, pcall = error, ipairs, math.max, pcall
local format, gmatch, match = string.format, string.gmatch, string.match

local _M = {}

local function start(C, client, q)
    local within = rounds.to_ms(q.within or rounds.FOREVER)
    if q.clients then
        return C.rl_ask(client.core, q.place - 1, C.RL_CLIENT_LIST, nil, 0, nil, 0, within)
    end
    local keys, nkeys = ffi_values.keys, ffi_values.fill(ffi_values.keys, q.keys)
    local args, nargs = ffi_values.args, q.args and ffi_values.fill(ffi_values.args, q.args) or 0
    if q.primitive then
        local ids = client:scripts(q.primitive)
        local whom = q.primitive.questions[q.script] and C.RL_ASK_VOTERS or C.RL_ASK_MAJORITY
        return ids and C.rl_ask(client.core, whom, ids[q.script], keys, nkeys, args, nargs, within)
    end
    local id = script_text.register(C, client, "a question", q.body)
    local whom = q.place and q.place - 1 or C.RL_ASK_EACH
    return id and C.rl_ask(client.core, whom, id, keys, nkeys, args, nargs, within)
end

--- Sends a question.
-- @return the round, for answers(); or nil
function _M.begin(client, q)
    local round = start(rounds.load(), client, q)
    return round ~= nil and round or nil
end

--- Waits for the answers to a question, whose round may be nil, and frees the round.
-- @return a list of { node, vote, info, data, agreed: whether a majority gave the same answer } for
--   the nodes that answered; or nil and an error. With `place`: { vote, info, data = all of it },
--   or { code, message } without an answer
function _M.answers(client, q, round)
    if q.place and not round then
        return { code = client.closed and "closed" or "nomem", message = "not asked" }
    end
    local granted = rounds.await(client, round, nil, q.op)
    if q.place then
        return answers.take_one(client, round, q.place)
    elseif not granted then
        return nil, answers.failure(client, q.subject, round)
    end
    local said = answers.of(client, round)
    rounds.free(round)
    return said
end

--- Sends a question, and waits.
-- @return as answers()
function _M.ask(client, q)
    return _M.answers(client, q, _M.begin(client, q))
end

-- Sends several questions at once.
-- @return their rounds, by their places in the list
local function begin_each(client, list)
    local begun = {}
    for k, q in ipairs(list) do
        local ok, round = pcall(_M.begin, client, q)
        if not ok then                   -- no room for its script, or Ctrl-C
            for before = 1, k - 1 do
                rounds.free(begun[before])
            end
            error(round, 0)
        end
        begun[k] = round
    end
    return begun
end

--- Sends several questions at once, and waits for all answers.
-- @return a list of what answers() returns for each; or nil and the error of one of them
function _M.ask_each(client, list)
    local begun, said = begin_each(client, list), {}
    for k, q in ipairs(list) do
        local ok, answer, err = pcall(_M.answers, client, q, begun[k])
        if not ok or not answer then     -- a wait raises on Ctrl-C, and when it is cancelled
            for later = k + 1, #list do
                rounds.free(begun[later])
            end
            if not ok then
                error(answer, 0)
            end
            return nil, err
        end
        said[k] = answer
    end
    return said
end

--- Why too few servers answered questions with `place`, by their answers: place -> answer.
-- @return an error: no_quorum, not_a_lock, nomem, closed; nil: a majority answered
function _M.lack(client, subject, said)
    local rows, n, codes = {}, 0, { not_a_lock = 0, nomem = 0 }
    for place = 1, client.size do
        local one = said[place]
        rows[place] = { node = client.options.nodes[place].label, code = one.code or "ok",
            vote = one.vote, message = one.message or "yes" }
        n = n + (one.vote and 1 or 0)
        if codes[one.code] then
            codes[one.code] = codes[one.code] + 1
        end
    end
    local function prevents(code)
        return codes[code] > client.size - client.quorum and code
    end
    if client.closed or n < client.quorum then
        return errors.new(client.closed and "closed" or prevents "nomem" or prevents "not_a_lock"
            or "no_quorum", subject, not client.closed and rows or nil)
    end
end

local PAUSE, REST = 0.002, 0.4

--- Sends questions with `place`, and does not wait for all answers: once enough(what has come;
-- false: nothing so far) is true, the other servers get as long again, at least REST seconds.
-- @return what answers() returns for each; false where no answer has come yet
function _M.ask_until(client, list, enough)
    local begun, said, came, began, ends = begin_each(client, list), {}, 0, client.now(), nil
    local ok, err = pcall(function()
        repeat
            for k, q in ipairs(list) do
                if not said[k] and (not begun[k] or rounds.is_done(begun[k])) then
                    said[k], begun[k], came = _M.answers(client, q, begun[k]), nil, came + 1
                end
                said[k] = said[k] or false
            end
            local now = client.now()
            ends = ends or enough(said) and now + max(now - began, REST)
            local over = came == #list or ends and now >= ends
            if not over then
                rounds.sleep(client, PAUSE)
            end
        until over
    end)
    for k = 1, #list do
        rounds.free(begun[k])
    end
    if not ok then                       -- Ctrl-C
        error(err, 0)
    end
    return said
end

--- Counts connections in a CLIENT LIST, or nil: those that fits(line), but `ours` of them.
-- @return how many; and a text: "2 connections of 1 host use"
function _M.count_connections(list, fits, ours)
    local n, hosts, seen = -(ours or 0), 0, {}
    for line in gmatch(list or "", "[^\n]+") do
        if fits(line) then
            local host = match(line, " addr=(%S+):%d+ ") or "?"
            n, hosts, seen[host] = n + 1, hosts + (seen[host] and 0 or 1), true
        end
    end
    return n, format("%d connection%s of %d host%s use%s", n, n == 1 and "" or "s", hosts,
        hosts == 1 and "" or "s", n == 1 and "s" or "")
end

--- Sends a question whose answers nobody waits for.
function _M.send(client, q)
    rounds.free(_M.begin(client, q))
end

return _M
