-- make bench-nginx: the library in one worker of nginx, beside the floor (floor.c) and beside
-- a Redlock written by hand with lua-resty-redis. Five servers; the competitors take turns. Then
-- beside a lock written by hand on one server.
--
--     luajit spec/bench/nginx.lua [seconds per row [cycles per batch]]
local root = arg[0]:match "^(.*)/spec/bench/[^/]*$" or "."
package.path = ("%/lua/?.lua;%/lua/?/init.lua;%/build/?.lua;%/?.lua;%/?/init.lua;")
    :gsub("%%", root) .. package.path

local resty = require "spec.bench.peers.resty"
local support = require "spec.support"
local turns = require "spec.bench.turns"

local TURNS, IN_FLIGHT = 5, 64
local SECONDS = tonumber(arg[1]) or 5
local CYCLES = tonumber(arg[2]) or 1000

local SERVER = [[
    location /cycles { content_by_lua_block {
        local count, how, name = tonumber(ngx.var.arg_n), ngx.var.arg_how, ngx.var.arg_name
        local now, samples = redlock_now, {}
        local function cycles(id)
            local lock = client:getLock(name .. id, { owner = id })
            for i = 1, count do
                local from = now()
                if how == "hand" then
                    local value = by_hand.value()
                    assert(by_hand.take(name .. id, value))
                    assert(by_hand.give(name .. id, value))
                else
                    local ok, err = lock:tryLock(5, 10)
                    if not ok then error(tostring(err)) end
                    assert(lock:unlock())
                end
                samples[#samples + 1] = now() - from
            end
        end
        local from, threads = now(), {}
        for i = 1, tonumber(ngx.var.arg_threads) do
            threads[i] = ngx.thread.spawn(cycles, i)
        end
        for i = 1, #threads do
            assert(ngx.thread.wait(threads[i]))
        end
        local rate = #samples / (now() - from) * 1e6
        table.sort(samples)
        ngx.print(samples[math.ceil(#samples / 2)], " ", rate)
    } }
    location /same { content_by_lua_block {
        local lock = client:getLock "same"
        local ok, err = lock:tryLock(60, 10)
        ok = ok and lock:unlock()
        ngx.print(ok and "ok" or tostring(err))
    } }
    location /wait { content_by_lua_block {
        client:getLock("held"):tryLock(tonumber(ngx.var.arg_s), 10)
        ngx.print "ok"
    } }
]]

local function median(list)
    table.sort(list)
    return list[math.ceil(#list / 2)]
end

local cluster = support.cluster(5)

local function new_nginx(main)
    return support.nginx { nodes = cluster, server = SERVER,
        init = resty.by_hand(20000) .. resty.CLOCK, options = "timeout = 5", main = main }
end

local ng = new_nginx()
-- A worker on a processor of its own: what it and its keeper say to each other stays there.
local pinned = new_nginx "worker_cpu_affinity auto;"

local floor = turns.floor(cluster, "script")

local turn = 0
local function run_nginx(server, how, cycles, in_flight)
    turn = turn + 1
    local text = server:begin(("/cycles?n=%d&how=%s&name=%s%d:&threads=%d"):format(cycles, how, how,
        turn, in_flight)):finish(120)
    local p50, rate = text:match "^(%S+) (%S+)$"
    return { p50 = tonumber(p50), rate = tonumber(rate) }
end

local function compare(what, in_flight, field, better)
    local ours, alone, hand = {}, {}, {}
    for i = 1, TURNS do
        local cycles = math.ceil(in_flight > 1 and CYCLES * 0.3 or CYCLES)
        local least = floor:run(cycles * in_flight, in_flight)[field]
        ours[i] = run_nginx(ng, "redlock", cycles, in_flight)[field] / least
        alone[i] = run_nginx(pinned, "redlock", cycles, in_flight)[field] / least
        hand[i] = run_nginx(ng, "hand", math.ceil(cycles / 20), in_flight)[field] / least
    end
    print(("%-22s %s of the floor: redlock %.2f, with worker_cpu_affinity %.2f, "
        .. "lua-resty-redis %.3f (%s)"):format(what, field, median(ours), median(alone),
        median(hand), better))
end

local function wrk(path, seconds, connections, server)
    local p = support.spawn { "wrk", "-t1", "-c" .. connections, "-d" .. seconds .. "s",
        "--latency", "--timeout", "60s",
        ("http://127.0.0.1:%d%s"):format((server or ng).port, path),
        stdout = "pipe", stderr = "stdout" }
    return p
end

local function result(p)
    local text = p:read_all(120)
    return tonumber(text:match "Requests/sec:%s*(%S+)"), text:match "\n%s+50%%%s+(%S+)",
        text:match "\n%s+99%%%s+(%S+)", text
end

local function ping_beside_waiters()
    local other = support.warm_client(cluster)
    assert(other:getLock("held"):tryLock(1, 60))
    local waiters = wrk("/wait?s=" .. SECONDS + 3, SECONDS + 3, 1000)
    support.sleep(2)
    local before = cluster[1]:call("INFO", "commandstats"):match "evalsha:calls=(%d+)"
    local _, p50, p99 = result(wrk("/ping", SECONDS, 1))
    local after = cluster[1]:call("INFO", "commandstats"):match "evalsha:calls=(%d+)"
    waiters:read_all(60)
    print(("/ping beside 1000 waiting requests: p50 %s, p99 %s (< 10 ms); a server sees %.1f "
        .. "calls/s"):format(p50, p99, (after - before) / SECONDS))
    other:close()
end

local FOREIGN = [[
    local waits, finish = {}, support.now() + %d
    local l = client:getLock "same"
    while support.now() < finish do
        local from = support.now()
        assert(l:tryLock(60, 10))
        waits[#waits + 1] = (support.now() - from) * 1000
        assert(l:unlock())
        support.sleep(0.02)
    end
    table.sort(waits)
    print(#waits, waits[math.ceil(#waits / 2)], waits[math.ceil(#waits * 0.99)])
]]

local function hand_over()
    local alone = result(wrk("/same", SECONDS, 1000))
    local foreign = support.child(cluster, "{}", FOREIGN:format(SECONDS))
    assert(foreign:read_line(10) == "ready")
    local beside = result(wrk("/same", SECONDS + 1, 1000))
    local n, p50, p99 = foreign:read_line(90):match "(%S+)%s+(%S+)%s+(%S+)"
    print(("1000 requests on one name: %.0f holds/s, %.0f beside another process (>= 5000), "
        .. "which waited %d times: p50 %.1f ms, p99 %.1f ms (<= 60)"):format(alone, beside, n,
        p50, p99))
end

-- ---- beside a lock on one server ---------------------------------------------------

local ON_ONE = [[
    location /hand { content_by_lua_block {
        local name, value = "h" .. math.random(1e5), by_hand.value()
        assert(by_hand.take(name, value) and by_hand.give(name, value))
        ngx.print "ok"
    } }
    location /one { content_by_lua_block { cycle(client) } }
    location /three { content_by_lua_block { cycle(on_three) } }
]]

local ON_THREE = [[
    on_three = redlock.new { nodes = { "%s" }, cluster = "spec", timeout = 5 }
    function cycle(client)
        local lock = client:getLock("n" .. math.random(1e5))
        assert(lock:tryLock(5, 10))
        assert(lock:unlock())
        ngx.print "ok"
    end
]]

local UNITS = { us = 1, ms = 1e3, s = 1e6 }

-- Each request is a lock and its release: p50 of the requests, and what one costs the worker.
local function requests(server, path, connections)
    local pid = server:workers()[1]
    local cpu, switches = turns.used_by(pid)
    local _, p50, _, text = result(wrk(path, math.ceil(SECONDS / 2), connections, server))
    local cpu_after, switches_after = turns.used_by(pid)
    local count, number, unit = text:match "(%d+) requests in", p50:match "^(%S-)(%a+)$"
    assert(not text:find "Non-2xx", text)
    return { p50 = number * UNITS[unit], cpu = (cpu_after - cpu) / count,
        switches = (switches_after - switches) / count }
end

local function on_one_server()
    local server = support.nginx { nodes = support.cluster(1), server = ON_ONE,
        init = resty.by_hand(20000) .. ON_THREE:format(table.concat(support.cluster(3):uris(),
            '", "')), options = "timeout = 5" }
    print "lock and unlock in a request; by hand on one server, and redlock / by hand in each turn:"
    local paths = { "/hand", "/one", "/three" }
    for _, connections in ipairs { 1, 32, 64 } do
        local batches = { {}, {}, {} }
        for i = 1, TURNS do
            for k, path in ipairs(paths) do
                batches[k][i] = requests(server, path, connections)
            end
        end
        local hand = batches[1]
        print(("%d connections, by hand: p50 %.0f us; the worker: CPU %.0f us, switches %.1f")
            :format(connections, turns.median_of(hand, "p50"), turns.median_of(hand, "cpu"),
                turns.median_of(hand, "switches")))
        for k = 2, #paths do
            print(("    redlock on %s: p50 %s, CPU %s, switches %.1f"):format(paths[k]:sub(2),
                turns.ratio(batches[k], hand, "p50"), turns.ratio(batches[k], hand, "cpu"),
                turns.median_of(batches[k], "switches")))
        end
    end
    server:stop "TERM"
end

local ok, err = pcall(function()
    floor:run(2000, IN_FLIGHT)
    run_nginx(ng, "redlock", 300, 8)
    run_nginx(pinned, "redlock", 300, 8)
    run_nginx(ng, "hand", 30, 8)
    compare("64 at once, cycles/s", IN_FLIGHT, "rate", "redlock >= 0.4")
    compare("one at a time, p50", 1, "p50", "redlock <= 1.4")
    ping_beside_waiters()
    hand_over()
    on_one_server()
    local complaints = ng:complaints()
    print(complaints ~= "" and complaints or "no errors in the log")
end)
if not ok then
    io.stderr:write(ng:complaints():sub(1, 2000), "\n")
end
ng:stop "TERM"
pinned:stop "TERM"
support.cleanup()
if not ok then
    io.stderr:write("bench: ", tostring(err), "\n")
    os.exit(1)
end
