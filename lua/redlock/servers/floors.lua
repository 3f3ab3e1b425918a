--- Floors of fencing tokens: where a server that lost a counter continues.
--
-- For each of 1024 buckets of names a server keeps a number above which it never gave out a
-- counter. A server that restarted or lost its floors (scripts/fenced/run.lua) has no vote for a
-- bucket until it has a floor again: the largest of N - q + 1 others, because any majority that
-- witnessed a token has a member among those. Before that, the server must have been through the
-- restart guard's quarantine, so that no attempt counts on its earlier answers.

local answers = require "redlock.runtime.answers"
local question = require "redlock.runtime.question"
local errors = require "redlock.runtime.errors"
local health = require "redlock.servers.health"
local limits = require "redlock.runtime.limits"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local ipairs, tonumber = ipairs, tonumber
local format, floor, max, min = string.format, math.floor, math.max, math.min
local sort = table.sort

local _M = {}

_M.KEY = "redlock:{server}:floor"

--- How many floors a server has: at most 80 KB. Names that share one only skip numbers.
_M.BUCKETS = 1024

-- Seconds that a server keeps the counter of a name that nobody locks: at least any max_lease.
-- Its tokens then continue from the floor.
_M.COUNTER_TTL = limits.DAY

local AT_ONCE = 64            -- floors taught at once: fewer requests than NODE_BEHIND_MIN (node.h)

-- Where too few others answer (a new cluster, all floors lost at once, their servers out of reach)
-- tokens continue from the clock: above all earlier ones, if fewer than 16 were issued in a
-- millisecond. A floor years ahead of the clock is the mistake of somebody who wrote to the server;
-- following it once would make all later tokens larger. No token is 10^14 or more: below that,
-- tokens are exact in Lua, JSON and printed texts.
local PER_MS, END, STEP = 16, limits.TOKEN_END, 32     -- STEP: of scripts/fenced/counter.lua
local AHEAD_MS, ROOM = 10 * 365 * 86400e3, 2 ^ 32
local SET_MS = 1767225600e3                          -- 2026: an earlier clock is not set

-- Reads the clocks, ours and the servers'. From the latest follows client.token_limit, a text: a
-- bound that no counter can have reached.
-- @return the median clock of the servers (of two, the later): neither a single one that was set
--   back decides, nor ours, which the next client does not know; ours where no other is known
local function look_at_clocks(client)
    local ours = tonumber(rounds.load().rl_unix_ms())
    local clocks = {}
    for _, row in ipairs(health.rows(client)) do
        if row.ready and row.clock_offset then
            clocks[#clocks + 1] = ours + row.clock_offset * 1000
        end
    end
    sort(clocks)
    local latest = max(clocks[#clocks] or ours, ours, SET_MS)
    client.token_limit = format("%.0f", min(PER_MS * (latest + AHEAD_MS), END - STEP))
    return clocks[floor(#clocks / 2) + 1] or ours
end

--- A bound that no counter can have reached, as text for the scripts.
function _M.limit(client)
    if not client.token_limit then
        look_at_clocks(client)
    end
    return client.token_limit
end

local function years_ahead(n)
    return { kind = "tokens", verdict = "warning", message = format("it counts tokens from "
        .. "%.0f, years ahead of every clock, and has no vote on them; if too few other servers "
        .. "can correct it, delete redlock:{server}:floor on it", n) }
end

local OUT_OF_RANGE = 2        -- a vote of the script "floor"

-- The error when servers whose floors are out of range keep others from getting one: it names them.
local function not_taught(view, said)
    local client, rows = view.client, {}
    for i = 1, client.size do
        rows[i] = { node = client.options.nodes[i].label, code = "ok", message = "-" }
    end
    for i = 1, #said do
        if said[i].vote == OUT_OF_RANGE then
            rows[said[i].node].code = "unseeded"
            rows[said[i].node].message = years_ahead(said[i].info).message
        end
    end
    return nil, errors.new("no_quorum", view, rows)
end

-- Counts answers about a bucket's floor.
-- @return how many servers have one, the largest, and how many are out of range
local function count(client, said)
    local seeded, most, wild = 0, 0, 0
    for i = 1, #said do
        local vote, n = said[i].vote, said[i].info
        if vote == OUT_OF_RANGE then
            wild = wild + 1
            client.events:warn_once(client.options.nodes[said[i].node].label, years_ahead(n))
        elseif vote >= 0 then
            seeded, most = seeded + vote, max(most, n)
        end
    end
    return seeded, most, wild
end

-- Chooses the floor for servers that lack one; middle_ms: from look_at_clocks().
-- @return the floor, a text; and whether it is a guess; or nil and an error
local function choose(view, said, middle_ms)
    local client = view.client
    local enough = client.size - client.quorum + 1
    local seeded, most, wild = count(client, said)
    if seeded < enough and wild > 0 then
        return not_taught(view, said)
    elseif seeded < enough then
        most = max(most, min(PER_MS * middle_ms, tonumber(client.token_limit) - ROOM))
    end
    return format("%.0f", most), seeded < enough
end

local KEYS = { _M.KEY }

--- Gives a floor to the servers that lack one for a bucket, in two round trips. If the first takes
-- too long, `client.unseeded` names the bucket from then on. If the second does, the next attempt
-- finds the servers seeded, as its requests arrive later. A floor out of range is replaced when
-- enough other servers have one: then no majority can have counted that far.
-- `view` is a lock whose primitive has the scripts "floor" and "seed"; op, within: as for
-- rounds.acquire.
-- @return true; or nil and an error: no_quorum (also: too many are out of range), closed
function _M.seed(view, bucket, op, within)
    local client, prim = view.client, view.primitive
    local ends = within and client.now() + within
    local middle_ms = look_at_clocks(client)
    local args = { bucket, client.guarded and "1" or "", client.token_limit }
    local q = { subject = view, primitive = prim, script = "floor", keys = KEYS, args = args,
        op = op, within = within }
    local said, err = question.ask(client, q)
    client.unseeded[bucket] = not said and within and true or nil
    if not said then
        return nil, err
    end
    local guessed
    args[4], guessed = choose(view, said, middle_ms)
    if not args[4] then
        return nil, guessed
    end
    q.script, q.within = "seed", ends and max(ends - client.now(), 0)
    said, err = question.ask(client, q)
    if guessed and (not said or answers.yes(said) > 0) then
        client.events:emit { type = "fence_seeded", name = view.name, floor = tonumber(args[4]) }
    end
    return said and true, err
end

--- Like seed() for a list of buckets, in two round trips for all, each within `within` seconds;
-- without an event.
-- @return how many floors are guesses; or nil and an error as of seed(): some may be seeded
function _M.seed_all(view, buckets, within)
    local client, prim, asked, guesses = view.client, view.primitive, {}, 0
    local middle_ms = look_at_clocks(client)
    for i, bucket in ipairs(buckets) do
        asked[i] = { subject = view, primitive = prim, script = "floor", keys = KEYS,
            args = { bucket, client.guarded and "1" or "", client.token_limit }, within = within }
    end
    local said, err = question.ask_each(client, asked)
    for i = 1, said and #said or 0 do
        local text, guessed = choose(view, said[i], middle_ms)
        if not text then
            return nil, guessed
        end
        asked[i].script, asked[i].args[4] = "seed", text
        guesses = guesses + (guessed and 1 or 0)
    end
    if said then
        said, err = question.ask_each(client, asked)
    end
    return said and guesses, err
end

local LARGEST = script_text.read "redlock.scripts.fenced.largest"

--- What the servers know of floors, for client:check(); calls found(place, finding) for each node
-- with floors out of range.
-- @return how many of the 1024 floors each node knows, by place: none where the user may not look
function _M.look(client, _, found)
    local known = {}
    look_at_clocks(client)
    for _, answer in ipairs(question.ask(client, { subject = "check", body = LARGEST,
        keys = KEYS }) or {}) do
        known[answer.node] = tonumber(answer.data)
        if answer.info + 1 >= tonumber(client.token_limit) then
            found(answer.node, years_ahead(answer.info))
        end
    end
    return known
end

--- Teaches all floors to the voting servers that lack some. `view` is any fenced lock.
-- @return how many floors are guesses from the clock; or nil and an error as of seed()
function _M.teach(view)
    local first, n, guessed = 0, AT_ONCE, 0
    while first < _M.BUCKETS do
        local buckets = {}
        for i = 1, n do
            buckets[i] = format("%d", first + i - 1)
        end
        local ok, err = _M.seed_all(view, buckets, 5)
        if ok then
            first, guessed = first + n, guessed + ok
        elseif n == 1 or err.code ~= "no_quorum" then
            return nil, err
        else
            n = n / 2
        end
    end
    return guessed
end

return _M
