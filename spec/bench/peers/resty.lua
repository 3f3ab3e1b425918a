-- A Redlock as people write it with lua-resty-redis: the usual script to unlock, a light thread per
-- server, connections from the pool.
local support = require "spec.support"

local _M = {}

-- `by_hand.take(name, value)` and `by_hand.give(name, value)`, of the servers in `nodes`.
local BY_HAND = [[
    local found, redis = pcall(require, "resty.redis")
    redis = found and redis or require "nginx.redis"         -- Debian's name of the same
    local UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then "
        .. "return redis.call('del', KEYS[1]) else return 0 end"
    local function ask(node, name, value, unlock)
        local r = redis:new()
        r:set_timeout(%d)
        if not r:connect(node:match "//(.*):", tonumber(node:match ":(%%d+)$")) then
            return false
        end
        local ok
        if unlock then
            ok = r:eval(UNLOCK, 1, name, value) == 1
        else
            ok = r:set(name, value, "NX", "PX", 30000) == "OK"
        end
        r:set_keepalive(60000, 100)
        return ok
    end
    local function all(name, value, unlock)
        if #nodes == 1 then
            return ask(nodes[1], name, value, unlock)
        end
        local threads, yes = {}, 0
        for i, node in ipairs(nodes) do
            threads[i] = ngx.thread.spawn(ask, node, name, value, unlock)
        end
        for i = 1, #threads do
            local _, ok = ngx.thread.wait(threads[i])
            yes = yes + (ok and 1 or 0)
        end
        return yes > #nodes / 2
    end
    by_hand = {}
    function by_hand.value()
        return ngx.worker.pid() .. ":" .. math.random(2 ^ 31) .. ":" .. math.random(2 ^ 31)
    end
    function by_hand.take(name, value)
        return all(name, value)
    end
    function by_hand.give(name, value)
        return all(name, value, true)
    end
]]

--- @param timeout_ms  of a server's answer
--- @return text of Lua for init_by_lua
function _M.by_hand(timeout_ms)
    return BY_HAND:format(timeout_ms)
end

-- `redlock_now()` in us, of another clock if one is given.
_M.CLOCK = [[
    local ffi = require "ffi"
    ffi.cdef "struct bench_ts { long s, n; }; int clock_gettime(int, struct bench_ts *);"
    local t = ffi.new "struct bench_ts"
    function redlock_now(clock)
        ffi.C.clock_gettime(clock or 1, t)
        return tonumber(t.s) * 1e6 + tonumber(t.n) / 1e3
    end
]]

-- The commands of peer.js: each is asked for as /command?a=...&b=...
local SERVER = [[
    location /run { content_by_lua_block {
        local cycles, in_flight = tonumber(ngx.var.arg_a), tonumber(ngx.var.arg_b) or 1
        local now, samples, left, threads = redlock_now, {}, cycles, {}
        local function loop(i)
            while left > 0 do
                left = left - 1
                local from, value = now(), by_hand.value()
                assert(by_hand.take("bench:" .. i, value))
                assert(by_hand.give("bench:" .. i, value))
                samples[#samples + 1] = now() - from
            end
        end
        local cpu, from = now(2), now()
        for i = 1, in_flight do
            threads[i] = ngx.thread.spawn(loop, i)
        end
        for i = 1, in_flight do
            assert(ngx.thread.wait(threads[i]))
        end
        local took = now() - from
        cpu = now(2) - cpu
        table.sort(samples)
        ngx.say(("%.3f %.3f %.3f %.3f"):format(samples[math.floor(cycles / 2) + 1],
            samples[math.floor(cycles * 0.99) + 1], cycles / took * 1e6, cpu / cycles))
    } }
    location /take { content_by_lua_block {
        local name, value = ngx.var.arg_a, by_hand.value()
        while not by_hand.take(name, value) do
            by_hand.give(name, value)
            ngx.sleep(0.05 + math.random() * 0.1)
        end
        by_hand.name, by_hand.held = name, value     -- globals end with the request
        ngx.say(("%.3f"):format(redlock_now()))
    } }
    location /give { content_by_lua_block {
        local from = redlock_now()
        by_hand.give(by_hand.name, by_hand.held)
        ngx.say(("%.3f"):format(from))
    } }
]]

-- Lines of stdin become requests, and their bodies lines of stdout.
local BRIDGE = [[while read -r command a b; do
    curl -s -m 120 "http://127.0.0.1:$0/$command?a=$a&b=$b" || exit 1
done]]

--- A worker in an nginx of its own; the timeout is that of lua-resty-redis's first example.
--- @return what to spawn, and a function that ends the nginx
function _M.worker(cluster)
    local ng = support.nginx { nodes = cluster, server = SERVER,
        init = _M.by_hand(1000) .. _M.CLOCK .. "math.randomseed(ngx.now() * 1000)" }
    return { "sh", "-c", BRIDGE, ng.port }, function() ng:stop "TERM" end
end

return _M
