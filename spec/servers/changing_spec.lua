-- Changes of the servers of a cluster beside eight programs, processes of their own, which lock,
-- take tokens and keep holds: some with the old list to the end, some with the new one at once.
local support = require "spec.support"
local sys = require "spec.support.sys"

-- Longer than programs take to notice that they may have votes.
local LEASES = { max_lease = 1.6, lease = 1.5, fallback = 0.1 }

local PROGRAM = [[
    local ffi = require "ffi"
    ffi.cdef "int usleep(unsigned)"
    local redlock = require "redlock"
    local kind, seed, over = arg[1], tonumber(arg[2]), arg[3]
    local lists, k = { {}, {} }, kind == "new" and 2 or 1
    for i = 4, #arg do
        table.insert(lists[arg[i]:sub(1, 1) == "<" and 1 or 2], (arg[i]:sub(2)))
    end
    math.randomseed(seed)
    local client
    local function open()
        client = redlock.new { nodes = lists[k], max_lease = %g, lease = %g, fallback = %g,
            restart_guard = k == 2 or #lists[1] > 1, on_event = false }
    end
    open()
    local now = client.now
    while not io.open(over) do
        local name = kind == "keeps" and "x" or ("xy"):sub(math.random(2)):sub(1, 1)
        local lock = client:getFencedLock(name)
        local ok, err = lock:tryLock(0.2)
        if ok then
            local from, token = now(), lock:token()
            local till, last, at = from + (kind == "keeps" and 4 or 0.03), from, from
            while at < till and lock:isValid() do
                last = at                        -- from before the look
                ffi.C.usleep(5000)
                at = now()
            end
            lock:unlock()
            print(("%%s %%.0f %%.6f %%.6f"):format(name, token, from, last))
        elseif err.code == "config" and kind ~= "old" and kind ~= "new" then
            client:close()
            k = 3 - k
            open()
        end
        ffi.C.usleep(10000)
    end
]]

local KINDS = { "old", "old", "new", "new", "keeps", "keeps", "both", "both" }

-- Starts a program with both lists, which ends when there is a file `over`.
local function start(kind, seed, over, old, new)
    local args = { kind, seed, over }
    for _, server in ipairs(old) do
        args[#args + 1] = "<" .. server.uri
    end
    for _, server in ipairs(new) do
        args[#args + 1] = ">" .. server.uri
    end
    return support.lua(PROGRAM:format(LEASES.max_lease, LEASES.lease, LEASES.fallback),
        { args = args })
end

-- The holds that programs tell of, in the order in which they began.
local function holds_of(programs)
    local holds = {}
    for _, program in ipairs(programs) do
        for line in program:read_all(60):gmatch "[^\n]+" do
            local name, token, from, till = line:match "^(%a) (%d+) (%S+) (%S+)$"
            assert.is_truthy(name, line)
            holds[#holds + 1] = { name = name, token = tonumber(token), from = tonumber(from),
                till = tonumber(till) }
        end
        assert.equal(0, (program:wait(10)))
    end
    table.sort(holds, function(a, b) return a.from < b.from end)
    return holds
end

-- No two at once, no token back.
-- @return for how long nobody had anything, in seconds
local function judge(holds)
    local before, gap, ends = {}, 0, nil
    for _, hold in ipairs(holds) do
        local last = before[hold.name]
        if last then
            assert.is_true(last.till <= hold.from, ("two hold %s"):format(hold.name))
            assert.is_true(last.token < hold.token, ("a token of %s went back"):format(hold.name))
        end
        before[hold.name] = hold
        gap, ends = math.max(gap, ends and hold.from - ends or 0), math.max(ends or 0, hold.till)
    end
    return gap
end

local function change(from, to, shared)
    local all = support.cluster(from + to - shared, { new = true })
    local old, new = {}, {}
    for i, server in ipairs(all) do
        old[#old + 1] = i <= from and server or nil
        new[#new + 1] = i > from - shared and server or nil
    end
    local function client_of(list)
        local uris = {}
        for i, server in ipairs(list) do
            uris[i] = server.uri
        end
        return support.client(uris, { max_lease = LEASES.max_lease, lease = LEASES.lease,
            fallback = LEASES.fallback, patience = 60, cluster = false,
            restart_guard = list == new or #uris > 1 })
    end
    local first, second = client_of(old), client_of(new)
    if from > 1 then
        assert.is_true(first:getLock("x"):lock() and first:getLock("x"):unlock())
    end
    local programs, over = {}, support.tmpdir() .. "/over"
    for i, kind in ipairs(KINDS) do
        programs[i] = start(kind, i, over, old, new)
    end
    local value, since
    support.eventually(function()                -- one of the programs that keep it has it
        local seen = all[1]:call("GET", "x")
        value, since = seen, seen == value and since or first.now()
        return seen and first.now() - since > 0.3
    end, 60, "a long hold")
    local changed, err = first:change(second)
    assert.is_truthy(changed, tostring(err))
    local at, seen = first.now(), {}
    support.eventually(function()                -- they lock on
        local taken = new[#new]:call("GET", "y")
        seen[#seen + 1] = taken and taken ~= seen[#seen] and taken or nil
        return #seen > 20
    end, 60, "locks afterwards")
    sys.write_file(over, "")
    local holds = holds_of(programs)
    local after = 0
    for _, hold in ipairs(holds) do
        after = after + (hold.from > at and 1 or 0)
    end
    local gap = judge(holds)
    assert.is_true(after > 0, "nobody got a lock afterwards")
    return gap, #holds
end

describe("a change of servers beside eight programs", function()
    for _, sizes in ipairs { { 1, 3, 1 }, { 3, 5, 2 } } do
        it(("gives no name to two: from %d to %d, %d stay"):format(unpack(sizes)), function()
            change(unpack(sizes))
        end)
    end

    -- Nightly: minutes; two of them are tried by day.
    it("gives no name to two: all of one to five, and from seven to three and back #nightly",
        function()
            local all = { { 7, 3, 3 }, { 7, 3, 1 }, { 3, 7, 3 }, { 3, 7, 1 } }
            for from = 1, 5 do
                for to = 1, 5 do
                    all[#all + 1] = (from ~= to or from > 1) and { from, to,
                        math.min(from, to) - (from == to and 1 or 0) } or nil
                    all[#all + 1] = (from > 1 and to > 1) and { from, to, 1 } or nil
                end
            end
            for _, sizes in ipairs(all) do
                local gap, n = change(unpack(sizes))
                print(("%d to %d, %d stay: %d holds, none for %.1f s"):format(sizes[1], sizes[2],
                    sizes[3], n, gap))
            end
        end)
end)
