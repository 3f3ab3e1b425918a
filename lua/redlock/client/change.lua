--- Changes the servers of a cluster while programs use it (client:change, redlock change).
--
-- Two lists of servers may have majorities without a common server. So the old list ends before
-- the new one begins: (1) every server of the old list gets a marker of a cluster that nobody has;
-- from then on no vote and no extension counts there; (2) a look finds all of them so; (3) all
-- servers of the new list get its marker, in quarantine, which outlasts each lock of before, and
-- the largest fencing token that the old ones have given out. Each step may be done again after a
-- kill. The first server in order is taken by one change only, which refuses others.

local errors = require "redlock.runtime.errors"
local health = require "redlock.servers.health"
local markers = require "redlock.servers.markers"
local quorum = require("redlock.runtime.limits").quorum
local reasons = require "redlock.runtime.reasons"
local rounds = require "redlock.runtime.rounds"

local format, match, max = string.format, string.match, math.max

local _M = {}

local CHANGE = "change."      -- before the hash of the new list: CLUSTER_CHANGE of the core
local PASSES = 5              -- somebody else wrote between reading and writing

local function refusal(...)
    return nil, errors.new("config", "change: " .. format(...))
end

-- Of a server with a marker of others.
local function refuse_foreign(row)
    local word = row.marker.cluster
    if not word then
        return refusal("%s: %s", row.node, row.objection or "it belongs to another cluster")
    end
    local to = match(word, "^change%.(.*)")
    return refusal("%s %s %s%s", row.node, to and "is closed by a change to" or "belongs to",
        reasons.cluster(to or word, row.marker.servers),
        to and ": finish that first; if it is, run FLUSHALL on this server"
            or row.marker.state == "n" and ", which never had its vote: stop the programs with "
            .. "that list, and run FLUSHALL on this server" or "")
end

-- Asks the servers of a client for their state, and reads their markers.
-- @return the rows of client:check(), with `marker`; or nil and an error
local function read_servers(client)
    local ok, err = rounds.check(client)
    local seen
    if ok then
        seen, err = markers.ask(client)
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
-- @return { comes, goes, stays: lists of labels; seconds: without locks }, nil, and the rows of the
--   old servers; or nil and an error
function _M.plan(old, new)
    local before, err = read_servers(old)
    local after, why = read_servers(new)
    if not (before and after) then
        return nil, err or why
    end
    local seconds, known = new.options.max_lease * 1.01 + 1, {}
    local plan = { comes = {}, goes = {}, stays = {}, seconds = seconds }
    for _, row in ipairs(after) do
        if not row.marker then
            return refusal("%s: %s", row.node, row.objection or row.message or row.code)
        end
        known[row.run_id or row.node] = row.node
    end
    for _, row in ipairs(before) do
        local node = known[row.run_id or row.node]
        plan.goes[#plan.goes + 1] = not node and row.node or nil
        plan.stays[#plan.stays + 1], known[row.run_id or row.node] = node, nil
    end
    for _, row in ipairs(after) do
        plan.comes[#plan.comes + 1] = known[row.run_id or row.node]
    end
    return plan, nil, before
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

-- Whether a server of the old list is closed, by its marker: true, and whether it is gone; false:
-- not yet, write; or nil and an error.
local function is_closed(change, row)
    local word = row.marker and row.marker.cluster
        or not change.old.guarded and row.cluster        -- which ends connections to such servers
    if word == change.closed or word == change.word then
        return true
    elseif not row.marker and change.gone[row.node] then
        return true, true
    elseif not row.marker then
        return refusal("%s does not answer (%s): start it; or, if it is stopped permanently, say "
            .. "so (--gone %s)", row.node, row.objection or row.message or row.code, row.node)
    elseif row.marker.text == "" or word == change.before then
        return false
    end
    return refuse_foreign(row)
end

-- The places of the old servers that are still to be closed, or nil and an error; and whether the
-- old list has ended: the servers that are not closed are no majority.
local function to_close(change, rows)
    local places, ended = {}, 0
    for _, place in ipairs(ordered(change.old)) do
        local closed, why = is_closed(change, rows[place])
        if closed == nil then
            return nil, why
        elseif not closed then
            places[#places + 1] = place
        end
        ended = ended + (closed and not why and 1 or 0)
    end
    return places, ended > change.old.size - quorum(change.old.size)
end

-- The largest token that the old servers have given out, as text; nil: none, or the servers that
-- remember theirs are too few to know it. Then tokens continue from the clocks.
local function largest_token(old, rows)
    local most, known = 0, 0
    for _, row in ipairs(rows) do
        most = max(most, row.marker and row.marker.floor or 0)
        known = known + (row.marker and row.marker.taught and 1 or 0)
    end
    return known > old.size - quorum(old.size) and format("%.0f", most) or nil
end

-- Calls pass(rows), again and again as long as it returns false, as it has written something.
-- @return what it returns then; or nil and an error
local function until_settled(client, pass)
    for _ = 1, PASSES do
        local rows, err = read_servers(client)
        if not rows then
            return nil, err
        end
        local done, result = pass(rows)
        if done ~= false then
            return done, result
        end
    end
    return refusal "the markers change all the time: does another change run?"
end

-- (1) and (2): ends the old list. Done when a look finds nothing to write.
-- @return true, and the largest token or nil; or nil and an error
local function close(change)
    local old = change.old
    return until_settled(old, function(rows)
        local places, has_ended = to_close(change, rows)
        if not places then
            return nil, has_ended
        elseif #places == 0 and has_ended then
            return true, largest_token(old, rows)
        elseif #places == 0 then
            return nil, errors.new("no_quorum", "change", health.complaints(rows))
        end
        for _, place in ipairs(places) do
            if not markers.write(old, place, rows[place].marker, nil, change.closed,
                change.list) then
                break                         -- somebody else has: look again
            end
        end
        return false
    end)
end

-- Whether a server of the new list is to get a marker now: true; false: no; or nil and an error.
-- begun: it got one in this run; voting: others have votes by the new list.
local function is_to_begin(change, row, begun, voting)
    local seen = row.marker
    if not seen then
        return refusal("%s: %s", row.node, row.objection or row.message or row.code)
    elseif seen.cluster == change.word then
        return not begun and (change.early or seen.state ~= "a")
    elseif seen.text == "" then
        return not voting                     -- else it has forgotten, and the others begin it
    elseif seen.cluster == change.closed or seen.cluster == change.left then
        return true
    end
    return refuse_foreign(row)
end

-- (3): begins a quarantine on each server of the new list. base: for their floors, or nil.
local function begin_quarantines(change, base)
    local begun = {}
    return until_settled(change.new, function(rows)
        local settled, voting = true, false
        for _, row in ipairs(rows) do
            voting = voting or row.marker and row.marker.cluster == change.word
                and row.marker.state == "a"
        end
        for _, place in ipairs(ordered(change.new)) do
            local wanted, why = is_to_begin(change, rows[place], begun[place], voting)
            if wanted == nil then
                return nil, why
            elseif wanted then
                settled = false
                begun[place] = markers.write(change.new, place, rows[place].marker, "l",
                    change.word, change.list, base)
                if not begun[place] then
                    break                     -- somebody else has: look again
                end
            end
        end
        return settled
    end)
end

--- See client:change. gone: labels of old servers that are stopped permanently.
function _M.run(old, new, gone)
    local word, before = markers.word(new), markers.word(old)
    local change = { old = old, new = new, gone = {}, word = word, before = before,
        closed = CHANGE .. markers.hash(new), list = markers.list(new),
        left = CHANGE .. markers.hash(old) }  -- of servers that went when the old list began
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
    local plan, err, rows = _M.plan(old, new)
    if not plan then
        return nil, err
    elseif #plan.stays == 0 then
        return refusal "no server stays: change some of them first, then the others"
    end
    local places, has_ended = to_close(change, rows)
    if not places then
        return nil, has_ended
    end
    change.early = not has_ended   -- begins a server again that has a vote by the new list
    local forgot = false      -- tokens that the new list gave out since the old one ended
    for _, row in ipairs(has_ended and rows or {}) do
        local seen = row.marker
        forgot = forgot or seen and (seen.text == "" or seen.cluster == word and not seen.taught)
    end
    local ok, base = close(change)
    if not ok then
        return nil, base
    end
    ok, err = begin_quarantines(change, not forgot and base or nil)
    return ok and plan, err
end

return _M
