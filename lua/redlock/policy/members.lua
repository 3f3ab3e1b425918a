--- The list of servers changes while locks are held: one server at a time, as in Raft, with a
-- joint view in between that needs the majorities of both lists.
--
-- Who changes it holds a fenced lock, whose token is a ballot. What the rules are for:
--   1  a majority of the old list promises the ballot within one lease, and says what it has: a
--      joint view that was begun is gone on with, the one of the largest ballot;
--   2  only those servers are given the joint view that promised, in the memory in which they did;
--   3  when a majority of the old list has it, one guard time passes: attempts and holds that know
--      nothing of it end meanwhile;
--   4  then a majority of the old list, and N - q + 1 of those who stay, must have it still, in the
--      same memory, with floors for all names;
--   5  only then the new list is in force. Whoever dies in between leaves something that any
--      other process can finish.
-- A list of an odd number loses none: of a majority that witnessed a token a minority would be
-- left, from which a server that forgets learns too little (spec/models/README.md, "level").

local errors = require "redlock.core.errors"
local floors = require "redlock.policy.floors"
local quorum = require "redlock.core.quorum"
local record = require "redlock.core.record"
local rounds = require "redlock.core.rounds"
local views = require "redlock.policy.views"

local ipairs, max, min = ipairs, math.max, math.min
local format, concat = string.format, table.concat

local _M = {}

--- The lock of whoever changes the list.
_M.LOCK = "redlock.members"

local LOOKS = "0"             -- the ballot of who only looks
local PAUSE = 0.5
local PATIENCE = 3            -- seconds for servers that do not answer, and are not needed
local UNREACHABLE = 10        -- seconds beyond a quarantine, for a majority to be there
local AT_ONCE = 64            -- buckets: fewer than a server may be behind with (node.h), of 1024
local CHANGES = 10            -- attempts, when servers forget meanwhile, or others change the list

local function config(...)
    return nil, errors.new("config", "members: " .. format(...))
end

local function guard_time(client)
    return client.options.max_lease * 1.01 + 1
end

local function votes(s)
    return s.votes
end

-- ---- what is to be done ------------------------------------------------------------

-- What is wrong with a wish; nil: nothing.
local function objection(now, wish)
    if wish.remove and not record.find(now.list, wish.remove) then
        return format("%s is not in the list {%s}", wish.remove, record.labels(now.list))
    elseif wish.add and record.find(now.list, wish.add) then
        return format("%s is in the list already", wish.add)
    elseif wish.remove and not wish.add and #now.list % 2 == 1 then
        return format("a list of %d servers cannot lose one, or fencing tokens might be forgotten "
            .. "with it: replace it by another one, or add one first", #now.list)
    elseif not wish.online and not now.online then
        return "before its first change a list has to be told, with all servers up, that it may "
            .. "change: redlock members online on"
    end
end

--- What a wish comes to.
-- @param now   the record of the list
-- @param wish  { add, remove, online, finish }
-- @return the joint view to be accepted; false: nothing is to be done; or nil and an error
function _M.plan(now, wish)
    if now.old then
        return now
    elseif wish.done(now) then
        return false
    end
    local why = objection(now, wish)
    if why then
        return config("%s", why)
    end
    local view = record.joint(now, wish, 0)
    if #record.write(record.stable(view)) > record.MAX then
        return config("the record of the list would be longer than %d bytes", record.MAX)
    end
    return view
end

-- The members of a list for which is(s) does not hold.
local function others(list, seen, is)
    local labels = {}
    for _, member in ipairs(list) do
        local s = seen[member.label]
        if not s or not is(s) then
            labels[#labels + 1] = format("%s (%s)", member.label, not s and "does not answer"
                or not s.marker and "has forgotten" or s.votes and "has to promise"
                or "in quarantine")
        end
    end
    return concat(labels, ", ")
end

--- Who a change waits for before it begins: without them no lock could be taken meanwhile.
-- @return a text; nil: nobody
function _M.lacks(view, seen, online)
    local old, new = view.old, view.list
    local stay = {}
    for _, member in ipairs(old) do
        if record.find(new, member.label) then
            stay[#stay + 1] = member
        end
    end
    local n = views.count(stay, seen, votes)
    if n < max(#old - quorum(#old) + 1, quorum(#new)) or online and n < #old
        or not views.majority(old, seen, votes) then
        return others(stay, seen, votes)
    end
end

-- ---- steps -------------------------------------------------------------------------

-- Waits, and serves what is held. nil and an error: the client is closed.
local function pause(client)
    rounds.sleep(client, PAUSE)
    if client.closed then
        return nil, errors.new("closed", "members")
    end
    return true
end

-- Looks until done(seen) says so, which may tell how far that is; at most so many seconds.
-- @return what was seen; false: it took too long; nil and an error
local function await(client, seconds, done)
    local ends = client.now() + seconds
    while true do
        local seen, err = views.look(client, LOOKS)
        if not seen then
            return nil, err
        elseif done(seen) then
            return seen
        elseif client.now() >= ends then
            return false
        end
        local ok
        ok, err = pause(client)
        if not ok then
            return nil, err
        end
    end
end

-- Every bucket of names gets a floor on the servers that vote and have none. Many at once, but for
-- a server that does not answer so many in time.
local function seed(change, list, seen)
    local missing = views.count(list, seen, function(s)
        return s.votes and s.seeded < views.BUCKETS
    end)
    local first, n = 0, AT_ONCE
    while missing > 0 and first < views.BUCKETS do
        change.tell("tells servers how far fencing tokens are", first, views.BUCKETS)
        local buckets = {}
        for i = 1, n do
            buckets[i] = format("%d", first + i - 1)
        end
        local ok, err = floors.seed_all(change.lock, buckets, 5)
        if ok then
            first = first + n
        elseif n == 1 or err.code ~= "no_quorum" then
            return nil, err
        else
            n = n / 2
        end
    end
    return true
end

-- Until enough servers vote, and the others had a moment to answer.
local function gather(change, view)
    local client, began = change.client, change.client.now()
    local lacks
    local seen, err = await(client, guard_time(client) + 10, function(seen)
        lacks = _M.lacks(view, seen, change.wish.online)
        local spent = client.now() - began
        if lacks then
            change.tell("waits for " .. lacks .. " to vote", spent, guard_time(client))
        end
        return not lacks and (spent >= PATIENCE or views.count(view.old, seen, votes) == #view.old)
    end)
    if seen == false then
        return config("too few servers vote: %s", lacks)
    end
    return seen, err
end

-- Rule 3.
local function wait(change)
    local client, seconds = change.client, guard_time(change.client)
    local ends = client.now() + seconds
    repeat
        local left = ends - client.now()
        change.tell("waits for what was begun under the old list", min(seconds - left, seconds),
            seconds)
        if left > 0 then
            rounds.sleep(client, min(PAUSE, max(left, 0.001)))
        end
        if client.closed then
            return nil, errors.new("closed", "members")
        end
    until left <= 0
    return true
end

-- Rule 4: the servers of the old list that have the view still.
local function verified(change, view, memory)
    local seen, err = views.look(change.client, LOOKS)
    if not seen then
        return nil, err
    end
    local name, size = record.name(view), #view.old
    local function stands(s)
        return s.votes and s.marker.view == name and s.marker.inc == memory[s.label]
            and s.seeded == views.BUCKETS
    end
    local kept, stay = {}, 0
    for _, member in ipairs(view.old) do
        local s = seen[member.label]
        if s and stands(s) then
            kept[#kept + 1] = s
            stay = stay + (record.find(view.list, member.label) and 1 or 0)
        end
    end
    local enough = #kept >= quorum(size) and stay >= size - quorum(size) + 1
        and (not change.wish.online or #kept == size)
    return enough and kept or false
end

-- Rules 1 and 2: true when a majority of the old list has the joint view.
local function accept(change, view, seen, ballot)
    local who = {}
    for _, member in ipairs(view.old) do
        local s = seen[member.label]
        if s and s.votes and format("%.0f", s.ballot) == ballot then
            who[#who + 1] = s
        end
    end
    local voting = views.count(view.old, seen, votes)
    if #who < quorum(#view.old) or #who < voting or change.wish.online and #who < #view.old then
        return false              -- somebody else has a larger ballot: another attempt
    end
    local done, err = views.accept(change.client, who, view, "a", ballot)
    if not done then
        return nil, err
    end
    local n, memory = 0, {}
    for _, s in ipairs(who) do
        memory[s.label] = done[s.label] and s.marker.inc
        n = n + (done[s.label] and 1 or 0)
    end
    return n == #who and memory
end

-- Rule 5.
local function put_in_force(change, view, kept)
    local after = record.stable(view)
    local stay, leave = {}, {}
    for _, s in ipairs(kept) do
        local to = record.find(view.list, s.label) and stay or leave
        to[#to + 1] = s
    end
    local done, err = views.accept(change.client, stay, after, "a")
    if not done then
        return nil, err
    end
    views.accept(change.client, leave, after, "r")
    return after
end

-- Whether the last change has added a server.
local function is_new(after, label)
    local before = after.was[1]
    return before and not format(" %s ", before.labels):find(format(" %s ", label), 1, true)
end

-- The server that was added, by us or by whom we finish for, votes, and has the numbers of all
-- names.
local function welcome(change, after)
    local added = {}
    for _, member in ipairs(after.list) do
        if member.label == change.wish.add or change.wish.finish and is_new(after, member.label)
        then
            added[1] = member
        end
    end
    local client, began = change.client, change.client.now()
    local seen, err = await(client, guard_time(client) + PATIENCE, function(seen)
        local done = views.count(added, seen, votes) == #added
        if not done then
            change.tell("waits for " .. added[1].label .. " to vote",
                min(client.now() - began, guard_time(client)), guard_time(client))
        end
        return done
    end)
    if not seen then
        return seen == false, err        -- it will, or redlock check says why not
    end
    return seed(change, after.list, seen)
end

-- One attempt, with the lock.
-- @return the record of the list in force; false: to be begun again; nil and an error
local function attempt(change)
    local client, lock = change.client, change.lock
    local seen, err = views.look(client, LOOKS)
    if not seen then
        return nil, err
    end
    local now = views.newest(seen)
    if not now then
        return config "no server says which list it is in; a new cluster? redlock init"
    end
    local view
    view, err = _M.plan(now, change.wish)
    if not view then
        return view == false and now or nil, err
    end
    seen, err = gather(change, view)
    if not seen then
        return nil, err
    end
    local ok
    ok, err = seed(change, view.old, seen)
    if not ok then
        return nil, err
    end
    local began, token = client.now(), lock:token()
    local ballot = token and format("%.0f", token)
    seen, err = views.look(client, ballot)
    if not seen then
        return nil, err
    elseif not token or client.now() - began >= client.options.max_lease then
        return false              -- a promise from before a restart, and one from after it
    end
    now = views.newest(seen)
    if not now then
        return false              -- those that answered have forgotten meanwhile
    end
    view, err = _M.plan(now, change.wish)
    if not view then
        return view == false and now or nil, err
    elseif _M.lacks(view, seen, change.wish.online) then
        return false
    end
    view.by = token
    change.tell(format("from {%s} to {%s}", record.labels(view.old), record.labels(view.list)))
    local memory
    memory, err = accept(change, view, seen, ballot)
    if not memory then
        return memory, err
    end
    ok, err = wait(change)
    if not ok then
        return nil, err
    end
    local kept
    kept, err = verified(change, view, memory)
    if not kept then
        return kept, err
    end
    return put_in_force(change, view, kept)
end

local function attempt_and_welcome(change)
    local result, err = attempt(change)
    if result and change.wish.done(result) then
        local ok
        ok, err = welcome(change, result)
        result = ok and result or nil
    end
    return result, err
end

local function with_lock(change)
    local client, began = change.client, change.client.now()
    repeat
        local ok, err = change.lock:tryLock(PAUSE)
        if ok then
            local ran, result, why = pcall(attempt_and_welcome, change)
            change.lock:unlock()
            if not ran then
                error(result, 0)
            end
            return result, why
        elseif err.code ~= "held" then
            return nil, err
        end
        change.tell("waits for somebody else who changes the list", client.now() - began,
            2 * guard_time(client))
    until client.closed
    return nil, errors.new("closed", "members")
end

--- Changes the list, or finishes a change that was begun.
-- @param lock  the fenced lock _M.LOCK of the client
-- @param wish  as for plan(), and done(record): whether a stable list is what is wanted
-- @param tell  function(what, seconds, of): called with what is being done
-- @return the record of the list that is in force; or nil and an error
function _M.change(lock, wish, tell)
    local change = { lock = lock, client = lock.client, wish = wish, tell = tell }
    local client, attempts = change.client, 0
    local ends = client.now() + guard_time(client) + UNREACHABLE
    repeat
        local result, err = with_lock(change)
        if result and wish.done(result) then
            return result
        elseif result ~= nil then
            attempts, ends = attempts + 1, client.now() + guard_time(client) + UNREACHABLE
        elseif err.code ~= "no_quorum" or client.now() >= ends then
            return nil, err
        else
            tell("waits for a majority to vote", guard_time(client) + client.now() - ends
                + UNREACHABLE, guard_time(client))
        end
        local ok
        ok, err = pause(client)
        if not ok then
            return nil, err
        end
    until attempts == CHANGES
    return config "the servers change faster than the list can; try again"
end

return _M
