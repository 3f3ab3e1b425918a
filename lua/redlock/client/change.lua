--- Changes the servers of a cluster while programs use it (client:change, redlock change).
--
-- Two lists of servers may have majorities without a common server. So the old list ends before
-- the new one begins: (1) every server of the old list gets a marker of a cluster that nobody has;
-- from then on no vote and no extension counts there; (2) a look finds all of them so; (3) all
-- servers of the new list get its marker, in quarantine, which outlasts each lock of before, and
-- the largest fencing token that the old ones have given out. Each step may be done again after a
-- kill. The first server in order is taken by one change only, which refuses others.

local errors = require "redlock.runtime.errors"
local floors = require "redlock.servers.floors"
local health = require "redlock.servers.health"
local markers = require "redlock.servers.markers"
local quorum = require("redlock.runtime.limits").quorum
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local format, max = string.format, math.max

local _M = {}

local CHANGE = "change."      -- before the hash of the new list: CLUSTER_CHANGE of the core
local PASSES = 5              -- somebody else wrote between reading and writing
local TELL = script_text.own "fenced.tell"

local function refusal(...)
    return nil, errors.new("config", "change: " .. format(...))
end

-- Asks the servers of a client for their state, and reads their markers.
-- @return the rows of client:check(), with `marker`; or nil and an error
local function look(client)
    local ok, err = rounds.check(client)
    local seen
    if ok then
        seen, err = markers.read(client)
    end
    if not seen then
        return nil, err
    end
    local rows = health.rows(client)
    for place, row in ipairs(rows) do
        row.marker = not seen[place].code and seen[place] or nil
    end
    return rows
end

--- What a change would do.
-- @return { comes, goes, stays: lists of labels; seconds: without locks }; or nil and an error
function _M.plan(old, new)
    local before, err = look(old)
    local after
    if before then
        after, err = look(new)
    end
    if not after then
        return nil, err
    end
    local plan, known = { comes = {}, goes = {}, stays = {}, silent = {},
        seconds = new.options.max_lease * 1.01 + 1 }, {}
    for _, row in ipairs(after) do
        if not row.marker then
            return refusal("%s: %s", row.node, row.objection or row.message or row.code)
        end
        known[row.run_id or row.node] = row.node
    end
    for _, row in ipairs(before) do
        local node = known[row.run_id or row.node]
        plan.silent[#plan.silent + 1] = not row.marker and row.node or nil
        plan.goes[#plan.goes + 1] = not node and row.node or nil
        plan.stays[#plan.stays + 1], known[row.run_id or row.node] = node, nil
    end
    for _, row in ipairs(after) do
        plan.comes[#plan.comes + 1] = known[row.run_id or row.node]
    end
    return plan
end

-- The places of a client's servers in the order of their names: two changes meet at the first.
local function ordered(client)
    local places, nodes = {}, client.options.nodes
    for place = 1, client.size do
        places[place] = place
    end
    table.sort(places, function(a, b) return nodes[a].label < nodes[b].label end)
    return places
end

-- Whether a server of the old list has ended, by its marker: true; false: not yet, write; or nil
-- and an error. ended: how many have.
local function has_ended(change, row, ended)
    local seen, old = row.marker, change.old
    if not seen then
        if change.gone[row.node] then
            return true
        end
        return refusal("%s does not answer (%s): start it; or, if it is stopped for good, say so "
            .. "(--gone %s)", row.node, row.objection or row.message or row.code, row.node)
    elseif seen.cluster == change.closed or seen.cluster == change.word then
        return true
    elseif seen.text == "" and old.guarded then
        if ended >= quorum(old.size) then
            return true                       -- it forgot, and cannot come back by the others
        end
        return refusal("%s has lost its memory: wait until it votes (redlock check --wait)",
            row.node)
    elseif seen.text == "" or seen.cluster == change.before then
        return false
    end
    return refusal("%s: %s", row.node, row.objection or "it belongs to another cluster")
end

-- (1) and (2): ends the old list. Done when a look finds nothing to write.
local function close(change)
    for _ = 1, PASSES do
        local rows, err = look(change.old)
        if not rows then
            return nil, err
        end
        local ended, wrote = 0, 0
        for _, row in ipairs(rows) do
            local word = row.marker and row.marker.cluster
            ended = ended + ((word == change.closed or word == change.word) and 1 or 0)
        end
        for _, place in ipairs(ordered(change.old)) do
            local is_over, why = has_ended(change, rows[place], ended)
            if is_over == nil then
                return nil, why
            elseif not is_over then
                wrote = wrote + 1
                if not markers.write(change.old, place, rows[place].marker, "l", change.closed,
                    change.list) then
                    break                     -- somebody else has: look again
                end
            end
        end
        if wrote == 0 and ended >= quorum(change.old.size) then
            return true
        elseif wrote == 0 then
            return nil, errors.new("no_quorum", "change", health.complaints(rows))
        end
    end
    return refusal "the markers change all the time: does another change run?"
end

-- The largest token that the old servers have given out, as text; nil: none, or unknown.
local function largest_token(change)
    local asked, most = {}, 0
    for place = 1, change.old.size do
        asked[place] = { body = TELL, place = place, keys = { floors.KEY },
            args = { floors.limit(change.old), "1" } }
    end
    for _, said in ipairs(question.ask_each(change.old, asked) or {}) do
        most = max(most, said.info or 0)
    end
    return most > 0 and format("%.0f", most) or nil
end

-- Whether a server of the new list is to get a marker now: true; false: no; or nil and an error.
-- begun: it got one in this run; voting: others have votes by the new list.
local function is_to_begin(change, row, first, begun, voting)
    local seen = row.marker
    if not seen then
        return refusal("%s: %s", row.node, row.objection or row.message or row.code)
    elseif seen.cluster == change.word and seen.state == "a" then
        if first then
            return refusal("%s votes by the new list already, beside the old one: stop programs "
                .. "that have the new one, and run FLUSHALL on this server", row.node)
        end
        return false
    elseif seen.cluster == change.word then
        return not begun
    elseif first then
        return false
    elseif seen.text == "" then
        return not voting                     -- else it has forgotten, and the others begin it
    elseif seen.cluster == change.closed then
        return true
    end
    return refusal("%s: %s", row.node, row.objection or "it belongs to another cluster")
end

-- (3): begins a quarantine on each server of the new list. first: before the old list has ended;
-- only on those where somebody has begun it too early. base: for their floors, or nil.
local function begin(change, first, base)
    local begun = {}
    for _ = 1, PASSES do
        local rows, err = look(change.new)
        if not rows then
            return nil, err
        end
        local wrote, voting = 0, false
        for _, row in ipairs(rows) do
            voting = voting or row.marker and row.marker.cluster == change.word
                and row.marker.state == "a"
        end
        for _, place in ipairs(ordered(change.new)) do
            local wanted, why = is_to_begin(change, rows[place], first, begun[place], voting)
            if wanted == nil then
                return nil, why
            elseif wanted then
                wrote = wrote + 1
                begun[place] = markers.write(change.new, place, rows[place].marker, "l",
                    change.word, change.list, base)
                if not begun[place] then
                    break                     -- somebody else has: look again
                end
            end
        end
        if wrote == 0 then
            return true
        end
    end
    return refusal "the markers change all the time: does another change run?"
end

-- Whether no server of the old list has a vote any more, by its marker.
local function is_closed(change, rows)
    for _, row in ipairs(rows) do
        local word = row.marker and row.marker.cluster
        if word == change.before or row.marker and row.marker.text == "" then
            return false
        end
    end
    return true
end

--- See client:change. gone: labels of old servers that are stopped for good.
function _M.run(old, new, gone)
    local word, before = markers.word(new), markers.word(old)
    local change = { old = old, new = new, gone = {}, word = word, before = before,
        closed = CHANGE .. markers.hash(new), list = markers.list(new) }
    for _, label in ipairs(gone) do
        change.gone[label] = true
    end
    if not new.guarded then
        return refusal "the new list has one server: set restart_guard = true for it"
    elseif new.options.max_lease ~= old.options.max_lease then
        return refusal "both lists need the same max_lease"
    elseif word == before then
        return refusal(old.options.cluster and "both lists have the name %s: give the new one "
            .. "another name (cluster), so that programs with the old list are refused"
            or "these are the servers of the cluster (%s)", word)
    end
    local plan, err = _M.plan(old, new)
    if not plan then
        return nil, err
    elseif #plan.stays == 0 then
        return refusal "no server stays: change some of them first, then the others"
    end
    local rows
    rows, err = look(old)
    if not rows then
        return nil, err
    end
    local ok = true
    if not is_closed(change, rows) then
        ok, err = begin(change, true)
    end
    if ok then
        ok, err = close(change)
    end
    if ok then
        ok, err = begin(change, false, largest_token(change))
    end
    if not ok then
        return nil, err
    end
    return plan
end

return _M
