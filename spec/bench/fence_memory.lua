-- What fenced locks leave on the servers: names that are locked once, and their counters, until
-- these expire.
--
--     luajit spec/bench/fence_memory.lua [NAMES [SECONDS]]     or: make bench-fencing N=NAMES
--
-- SECONDS, in place of a day, that an idle counter is kept; it should be longer than it takes to
-- lock all the names, or the first counters are gone before the last ones are there.
local support = require "spec.support"
local floors = require "redlock.servers.floors"
local redlock = require "redlock"

local _M = {}

local AT_ONCE = 256
local MAX_LEASE = 10
local SERVERS = 3
local FLOORS, MARKER = "redlock:{server}:floor", "redlock:{server}:marker"
local OTHERS = { "marker", "base", "most" }      -- beside the floors

local function number(server, section, field)
    return tonumber(server:call("INFO", section):match(field .. ":(%d+)"))
end

local function memory(server)
    return number(server, "memory", "used_memory")
end

local function each(futures)
    for _, future in ipairs(futures) do
        assert(future:get())
    end
end

-- Locks and unlocks prefix1 to prefixN, many at once.
-- @return the largest token
function _M.lock_once(client, prefix, n)
    local largest = 0
    for from = 1, n, AT_ONCE do
        local locks, futures = {}, {}
        for i = from, math.min(from + AT_ONCE - 1, n) do
            local k = i - from + 1
            locks[k] = client:getFencedLock(prefix .. i, { owner = prefix })
            futures[k] = locks[k]:tryLockAsync(30, client.options.lease)
        end
        each(futures)
        for k, lock in ipairs(locks) do
            largest = math.max(largest, lock:token())
            futures[k] = lock:unlockAsync()
        end
        each(futures)
    end
    return largest
end

-- How many counters a server has, without a look at each key (SCAN would take a while).
function _M.counters(server)
    local own = server:call("EXISTS", FLOORS) + server:call("EXISTS", MARKER)
    return server:call "DBSIZE" - own
end

function _M.floors(server)
    return server:call("HLEN", FLOORS) - #OTHERS,
        server:call("MEMORY", "USAGE", FLOORS, "SAMPLES", 0)
end

-- Locks n names once. Returns rows, one for each server: counters (on a slow machine the first
-- have expired already), per_name (bytes, as INFO has it), counter (bytes, as MEMORY USAGE has
-- it), floors, floor_bytes; left (counters when all should have expired), grown (bytes more than
-- before the first name, then).
function _M.run(n, counter_ttl, say)
    local cluster = support.cluster(SERVERS, { new = true }):admit(MAX_LEASE)
    local function open(ttl)
        floors.COUNTER_TTL = ttl
        return redlock.new { nodes = cluster:uris(), cluster = "spec",
            max_lease = MAX_LEASE, lease = MAX_LEASE, timeout = 5 }
    end
    local function await_none(ttl)
        support.eventually(function()
            local left = 0
            cluster:each(function(s) left = left + _M.counters(s) end)
            return left == 0
        end, ttl + 120, "the counters to expire")
    end
    local warm_up = open(MAX_LEASE)
    _M.lock_once(warm_up, "warm-up:", 16 * 1024)        -- all floors, large enough buffers
    warm_up:close()
    await_none(MAX_LEASE)
    local client = open(counter_ttl)
    local rows, started = {}, support.now()
    for i, server in ipairs(cluster) do
        rows[i] = { before = memory(server), expired = number(server, "stats", "expired_keys") }
    end
    _M.lock_once(client, "order:", n)
    local took = support.now() - started
    say(("%d names locked once in %.0f s"):format(n, took))
    for i, server in ipairs(cluster) do
        local row = rows[i]
        local there = _M.counters(server)
        row.per_name = (memory(server) - row.before) / there
        row.counters = there + number(server, "stats", "expired_keys") - row.expired
        row.counter = server:call("MEMORY", "USAGE", ("redlock:{order:%d}:fence"):format(n))
        row.floors, row.floor_bytes = _M.floors(server)
    end
    await_none(counter_ttl)
    say(("all gone %.0f s after the last one"):format(support.now() - started - took))
    for i, server in ipairs(cluster) do
        rows[i].left = _M.counters(server)
        rows[i].grown = memory(server) - rows[i].before
    end
    client:close()
    cluster:stop()
    return rows
end

if arg and arg[0] and arg[0]:find "bench/fence_memory.lua$" then
    io.stdout:setvbuf "line"
    local names = tonumber(arg[1]) or 1000000
    local rows = _M.run(names, tonumber(arg[2]) or math.max(10, names / 2500), print)
    for i, r in ipairs(rows) do
        print(("server %d: %d counters, %.0f bytes per name (%d of them the counter's); %d "
            .. "floors, %d bytes; at the end: %d counters, %+d KiB"):format(i, r.counters,
            r.per_name, r.counter, r.floors, r.floor_bytes, r.left, r.grown / 1024))
    end
    support.cleanup()
end

return _M
