--- Floors of fencing tokens: what each server goes on from when it has lost a counter.
--
-- A server keeps, for each of 1024 buckets of names, a number above which it never gave out
-- a counter. One that was restarted or has lost its floors (fenced/run.lua) has no vote for a
-- bucket until it has a floor again: the largest of N - q + 1 others, because any majority
-- that witnessed a token has a member among those. Before that it must have been through the
-- quarantine of the restart guard, so that no attempt counts on what it said before.

local health = require "redlock.health"
local quorum = require "redlock.quorum"
local rounds = require "redlock.rounds"
local guard = require "redlock.restart_guard"

local ipairs, tonumber = ipairs, tonumber
local format, floor, max, min = string.format, math.floor, math.max, math.min
local sort = table.sort

local _M = {}

_M.KEY = "redlock:{server}:floor"

-- With too few others to ask (a new cluster, all were lost at once, or who remembers is out of
-- reach) tokens go on from the clock: above all that came before, if those were less than 16 in
-- a millisecond. Tokens stay below 10^14, which is exact in Lua, JSON and a printed number.
local PER_MS, LIMIT = 16, 1e14 - 2 ^ 32

-- The middle one of our clock and those of the servers, of two the later: a single one that was
-- set back does not decide.
local function from_clock(client)
    local ours = tonumber(rounds.load().rl_unix_ms())
    local clocks = { ours }
    for _, row in ipairs(health.rows(client)) do
        if row.ready and row.clock_offset then
            clocks[#clocks + 1] = ours + row.clock_offset * 1000
        end
    end
    sort(clocks)
    return min(PER_MS * clocks[floor(#clocks / 2) + 1], LIMIT)
end

local function has_a_yes(answers)
    for i = 1, #answers do
        if answers[i].vote > 0 then
            return true
        end
    end
    return false
end

--- Gives a floor to the servers that want one for a bucket. Two round trips. Where the first
-- takes too long, `client.unseeded` knows the bucket from then on; where the second does, the
-- next attempt finds what it does, as that goes before it.
-- @param view    a lock of the primitive that has the scripts "floor" and "seed"
-- @param bucket  a string
-- @param op      as for rounds.acquire
-- @param within  as for rounds.acquire
-- @return true; or nil and an error: no_quorum, closed
function _M.seed(view, bucket, op, within)
    local client, prim = view.client, view.primitive
    local ends = within and client.now() + within
    local keys = { _M.KEY, guard.KEY }
    local max_lease = client.guarded and format("%d", rounds.to_ms(client.options.max_lease))
        or ""
    local answers, err = rounds.ask(client, view, prim, "floor", keys,
        { bucket, max_lease }, op, within)
    client.unseeded[bucket] = not answers and within and true or nil
    if not answers then
        return nil, err
    end
    local seeded, most = 0, 0
    for i = 1, #answers do
        if answers[i].vote >= 0 then
            seeded = seeded + answers[i].vote
            most = max(most, answers[i].info)
        end
    end
    local n = #client.options.nodes
    local enough = n - quorum(n) + 1
    if seeded < enough then
        most = max(most, from_clock(client))
    end
    answers, err = rounds.ask(client, view, prim, "seed", keys,
        { bucket, max_lease, format("%.0f", most) }, op, ends and max(ends - client.now(), 0))
    if seeded < enough and (not answers or has_a_yes(answers)) then
        client.events:emit { type = "fence_seeded", name = view.name, floor = most }
    end
    return answers and true, err
end

return _M
