-- make bench-scale: what grows with processes, locks and names, each at two sizes. Three servers.
--
--     luajit spec/bench/scale.lua [LESS [MORE]]      locks in one process; 10,000 and 100,000
local support = require "spec.support"
local turns = require "spec.bench.turns"

local LESS, MORE = tonumber(arg[1]) or 10000, tonumber(arg[2]) or 100000
local SECONDS, LEASE, BATCHES = 10, 30, 5

-- What a process does with `n` names, 500 at once: hold(i) returns a future.
local WORK = [[
    local redlock = require "redlock"
    local support = require "spec.support"
    local n, lease = tonumber(arg[1]), tonumber(arg[2])
    local client = redlock.new { nodes = { unpack(arg, 3) }, cluster = "spec", timeout = 10,
        connect_timeout = 10, lease = lease, max_waiting = 1000 }
    local function each(begin)
        for first = 1, n, 500 do
            local futures = {}
            for i = first, math.min(first + 499, n) do
                futures[#futures + 1] = begin(i)
            end
            redlock.wait_all(futures)
            for _, future in ipairs(futures) do
                assert(future:get())
            end
        end
    end
]]

local HELD = [[
    each(function(i) return client:getLock("scale:" .. i, { owner = 1 }):tryLockAsync(10, 50) end)
]]
local KEPT = [[
    each(function(i) return client:getLock("scale:" .. i, { owner = 1 }):tryLockAsync(10) end)
]]
local FENCED = [[
    local locks = {}
    each(function(i)
        locks[i] = client:getFencedLock("scale:" .. i, { owner = 1 })
        return locks[i]:tryLockAsync(10, 50)
    end)
    each(function(i) return locks[i]:unlockAsync() end)
    locks = nil
]]
local PERMITS = [[
    each(function(i)
        return client:getSemaphore("scale:" .. math.ceil(i / 100), 100):tryAcquireAsync(10, 50)
    end)
]]

-- Prints renewals, and CPU in us, so far, for each line.
local DONE = [[
    collectgarbage()
    collectgarbage()
    print "done"
    for _ in io.lines() do
        print(client:stats().renewals, os.clock() * 1e6)
    end
    os.exit(0, false)
]]

local function memory(server)
    return tonumber(server:call("INFO", "memory"):match "used_memory:(%d+)")
end

local function start(cluster, work, n)
    return support.lua(WORK .. work .. DONE, { args = { n, LEASE, unpack(cluster:uris()) } })
end

local function finish(p)
    p:close_stdin()
    assert(p:wait(60) == 0)
end

local function done(p)
    assert(p:read_line(600) == "done", "a process of the bench has failed")
    return p
end

-- Bytes of a server, and of the client, for each of n. All are there before the first lease ends.
local function bytes(what, work, ...)
    for _, n in ipairs { ... } do
        local cluster = support.cluster(3)
        local idle = done(start(cluster, "", 0))
        local before, empty = memory(cluster[1]), support.rss(idle.pid)
        finish(idle)
        local p = done(start(cluster, work, n))
        print(("%-34s %7d: %5.0f bytes on a server, %5.0f in the process"):format(what, n,
            (memory(cluster[1]) - before) / n, (support.rss(p.pid) - empty) * 1024 / n))
        finish(p)
        cluster:stop()
    end
end

-- What `n` processes are to a server: connected; each holds a lock; and then waits for another one.
local function processes(n)
    local cluster, list = support.cluster(3), {}
    local client, server = support.warm_client(cluster), cluster[1]
    assert(client:getLock("wanted"):tryLock(0))
    local function info(section, field)
        return tonumber(server:call("INFO", section):match(field .. ":(%d+)"))
    end
    local connections, used = info("clients", "connected_clients"), memory(server)
    local function print_row(what)
        local cpu = turns.used_by(server.pid)
        support.sleep(SECONDS)
        print(("%2d processes that %-14s each %.1f connections, %5.0f bytes; of a server's CPU "
            .. "%6.1f us a second"):format(n, what,
            (info("clients", "connected_clients") - connections) / n, (memory(server) - used) / n,
            (turns.used_by(server.pid) - cpu) / SECONDS / n))
    end
    local function all(line)
        for _, p in ipairs(list) do
            p:write "\n"
            assert(p:read_line(60) == line)
        end
    end
    for i = 1, n do
        list[i] = support.child(cluster, "{}", ([[
            io.read()
            assert(client:getLock("mine%d"):lock())
            print "held"
            io.read()
            print "waits"
            client:getLock("wanted"):tryLock(600)
        ]]):format(i))
        assert(list[i]:read_line(60) == "ready")
    end
    print_row "are connected:"
    all "held"
    print_row "hold a lock:"
    all "waits"
    print_row "wait, too:"
    for _, p in ipairs(list) do
        p:kill "KILL"
        p:wait()
    end
    client:close()
    cluster:stop()
end

-- CPU of the client and of a server for a lock and its release, from which a core's rate follows.
local function rates()
    for _, at_once in ipairs { 64, 256 } do
        local cluster = support.cluster(3)
        local worker = turns.ours(cluster, "waves")
        worker:run(at_once * 5, at_once)
        local batches = turns.take({ worker }, BATCHES, at_once * 20, at_once)[1]
        local client, servers = turns.median_of(batches, "cpu"), turns.median_of(batches, "servers")
        print(("locks and releases, %3d at once: a core does %6.0f/s as a client, %6.0f/s as a "
            .. "server"):format(at_once, 1e6 / client, 3e6 / servers))
        worker:stop()
        cluster:stop()
    end
end

local function renewals()
    for _, n in ipairs { LESS, MORE } do
        local cluster = support.cluster(3)
        local p = done(start(cluster, KEPT, n))
        local function numbers()
            p:write "\n"
            local count, cpu = p:read_line(60):match "(%S+)%s+(%S+)"
            return tonumber(count), tonumber(cpu), (turns.used_by(cluster[1].pid))
        end
        local count, cpu, server = numbers()
        support.sleep(SECONDS)
        local count_after, cpu_after, server_after = numbers()
        local all = count_after - count
        print(("%d kept, lease %d s: %.0f renewals/s; CPU of one: client %.1f us, server %.1f us")
            :format(n, LEASE, all / SECONDS, (cpu_after - cpu) / all,
                (server_after - server) / all))
        finish(p)
        cluster:stop()
    end
end

io.stdout:setvbuf "line"
local ok, err = pcall(function()
    print(turns.describe())
    processes(4)
    processes(16)
    bytes("a held lock", HELD, LESS, MORE)
    bytes("a fenced name that was locked once", FENCED, LESS, MORE)
    bytes("a permit, 100 of a name", PERMITS, LESS / 10, LESS)
    rates()
    renewals()
end)
support.cleanup()
if not ok then
    io.stderr:write("bench: ", tostring(err), "\n")
    os.exit(1)
end
