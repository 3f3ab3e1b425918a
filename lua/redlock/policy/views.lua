--- What servers say of the list that they are in: their markers, and the records beside these.

local floors = require "redlock.policy.floors"
local places = require "redlock.core.places"
local quorum = require "redlock.core.quorum"
local record = require "redlock.core.record"
local rounds = require "redlock.core.rounds"
local restart_guard = require "redlock.policy.restart_guard"
local script_text = require "redlock.core.script_text"

local ipairs, pairs, tonumber = ipairs, pairs, tonumber
local format, match, concat = string.format, string.match, table.concat

local _M = {}

--- How many floors a server has that can teach others all that it counted.
_M.BUCKETS = 1024

local PIECE = 100             -- bytes of a record in an answer, as in scripts/members/look.lua

local KEYS = { restart_guard.KEY, floors.KEY, "redlock:{server}:ballot" }

local LIST = { KEYS[1] }

local scripts = {}

local function ask(client, script, keys, args)
    scripts[script] = scripts[script] or script_text.read("redlock.scripts.members." .. script)
    return rounds.ask_all(client, "members", scripts[script], keys, args)
end

-- What a marker says, or nil.
local function parse_marker(text)
    local inc, state, view = match(text, "^(%x+) v2 (%a) %S+ %d+ %d+ (%S+) %d+")
    local cluster, epoch = match(view or "", "^(%x+)%.(%d+)%.%x+$")
    return cluster and { text = text, inc = inc, state = state, view = view, cluster = cluster,
        epoch = tonumber(epoch) } or nil
end

-- Adds a piece of each record to what was seen; the first one with all else.
local function look_at(client, at, seen, ballot)
    local answers, err = ask(client, "look", at == 0 and ballot and KEYS or LIST,
        { format("%d", at), ballot or "0" })
    for _, answer in ipairs(answers or {}) do
        local label = places.label(client, answer.node)
        local marker, alive, seeded, piece =
            match(answer.data, "^([^\n]*)\n(%d) (%d+)\n(.*)$")
        local s = seen[label or ""]
        if at == 0 and marker and label then                     -- nil: it has left meanwhile
            marker = parse_marker(marker)
            seen[label] = { label = label, marker = marker, ballot = answer.info,
                votes = alive == "1" and marker ~= nil and marker.state == "a",
                seeded = tonumber(seeded), length = answer.vote, text = piece }
        elseif s and marker and s.length == answer.vote and #s.text == at then
            s.text = s.text .. piece
        end
    end
    return answers and true, err
end

--- What each server says of the list.
-- @param client  whose servers are asked
-- @param ballot  a text: to be promised by those that vote; "0": none; nil: the list alone, which
--   all users may see
-- @return label -> { label, marker ({ text, inc, state, view, cluster, epoch } or nil), votes (it
--   is admitted, in this life), record (nil: none of the view that the marker names), and with a
--   ballot: ballot (promised last), seeded (how many floors it has) }, for those that answer; or
--   nil and an error
function _M.look(client, ballot)
    local seen, at, longest = {}, 0, 0
    repeat
        local ok, err = look_at(client, at, seen, ballot)
        if not ok then
            return nil, err
        end
        for _, s in pairs(seen) do
            longest = math.max(longest, s.length)
        end
        at = at + PIECE
    until at >= longest
    for _, s in pairs(seen) do
        local found = #s.text == s.length and record.parse(s.text)
        if found and s.marker and record.name(found) == s.marker.view then
            s.record = found
        end
    end
    return seen
end

--- The record of the newest view that servers are at, of joint ones that of the largest ballot; or
-- nil: none has a list.
function _M.newest(seen)
    local best
    for _, s in pairs(seen) do
        local r = s.record
        if r and s.marker.state ~= "p" and (not best or r.epoch > best.epoch
            or r.epoch == best.epoch and r.by > best.by) then
            best = r
        end
    end
    return best
end

--- How many members of a list have been seen, and is(s) holds for them.
function _M.count(list, seen, is)
    local n = 0
    for _, member in ipairs(list) do
        local s = seen[member.label]
        n = n + (s and is(s) and 1 or 0)
    end
    return n
end

--- Whether they are a majority of it.
function _M.majority(list, seen, is)
    return _M.count(list, seen, is) >= quorum(#list)
end

--- Has servers take a view, each in the memory in which it was seen.
-- @param client  whose servers are asked
-- @param who     what was seen of those that are to take it: a list
-- @param view    its record
-- @param state   what their markers are to say: "a", or "r" of those that leave
-- @param ballot  which they must have promised last; or nil
-- @return label -> true, of those that have it now; or nil and an error
function _M.accept(client, who, view, state, ballot)
    local texts, done = {}, {}
    for i, s in ipairs(who) do
        texts[i] = s.marker.text
    end
    if #texts == 0 then
        return done
    end
    local answers, err = ask(client, "accept", KEYS, { "\n" .. concat(texts, "\n\n") .. "\n",
        record.name(view), state, record.write(view), ballot or "" })
    for _, answer in ipairs(answers or {}) do
        local label = places.label(client, answer.node)          -- nil: it has left meanwhile
        if answer.vote > 0 and label then
            done[label] = true
        end
    end
    return answers and done, err
end

--- Lets a server of no list begin anew. Whether it does.
-- @param client  of that one server
-- @param s       what was seen of it
function _M.clear(client, s)
    local answers = ask(client, "clear", { KEYS[1], KEYS[3] }, { s.marker.text })
    return answers and answers[1] and answers[1].vote == 1 or false
end

return _M
