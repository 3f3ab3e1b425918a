-- The one timer of a worker that wakes its waiters: how it ends, and workers without it.
local support = require "spec.support"

local SERVER = [[
    location /times { content_by_lua_block {
        local now = require("spec.support.sys").now
        local times = {}
        for i = 1, 41 do
            local l, began = client:getLock "x", now()
            assert(l:tryLock(5, 10))
            assert(l:unlock())
            times[i] = now() - began
        end
        table.sort(times)
        ngx.print(times[21])
    } }
    location /hold { content_by_lua_block {
        assert(client:getLock("held"):tryLock(1))
        ngx.shared.shared:set("held", true)
        repeat
            ngx.sleep(0.01)
        until ngx.worker.exiting()
        ngx.sleep(0.5)
        ngx.print(tostring(client:getLock("held"):isValid()), " ",
            tostring(client:getLock("held"):unlock()))
    } }
    location /held { content_by_lua_block { ngx.print(tostring(ngx.shared.shared:get "held")) } }
]]

local NO_TIMERS = {
    http = "lua_max_running_timers 1;",
    init_worker = "ngx.timer.at(0, function() ngx.sleep(600) end)",
    shutdown = "1s",
}

describe("the reader of a worker", function()
    local cluster, ng

    setup(function()
        cluster = support.cluster(3)
    end)

    local function start(opts)
        ng = support.nginx { nodes = cluster, server = SERVER, http = opts and opts.http,
            first = opts and opts.first,
            init_worker = opts and opts.init_worker, shutdown = opts and opts.shutdown }
    end

    after_each(function()
        if ng and ng.proc:alive() then
            ng:stop "TERM"
        end
    end)

    local function count(pattern)
        return select(2, ng:log():gsub(pattern, ""))
    end

    describe("that cannot be had costs two timers of a millisecond a cycle:", function()
        local function median()
            local text = ng:get("/times", 60)
        return assert(tonumber(text), text)
        end

        -- A millisecond and what the machine is late for each of two waits. It was 40 ms and more.
        local function costs_little(with)
            assert.equal("ok", ng:get "/once?wait=5&lease=10")
            support.eventually(function() return median() < with + 0.02 end, 60,
                "cycles that take little more than with the reader, " .. with .. " s")
        end

        local with

        setup(function()
            start()
            assert.equal("ok", ng:get "/once?wait=5&lease=10")
            with = median()
            ng:stop "TERM"
        end)

        it("no timer", function()
            start(NO_TIMERS)
            costs_little(with)
            support.sleep(1)
            costs_little(with)
            assert.equal(1, count "no timer wakes those who wait")
        end)

        it("no function of nginx to poll by", function()
            start { first = "require('ffi').cdef 'intptr_t redlock_ngx_add_event(void *, int, "
                .. "intptr_t, void (*)(void *)) __asm__(\"none_such\")'" }
            costs_little(with)
        end)
    end)

    -- A second after the first attempt, two after the next, and so on up to a minute.
    it("that cannot be had is tried, and logged, less and less often", function()
        start { first = "require('ffi').cdef 'intptr_t redlock_ngx_add_event(void *, int, "
            .. "intptr_t, void (*)(void *)) __asm__(\"getpid\")'" }
        local ends = support.now() + 8
        while support.now() < ends do
            assert.equal("ok", ng:get "/once?wait=5&lease=10")
            support.sleep(0.1)
        end
        local times = count "nginx has no connection for it"
        assert.is_true(times >= 2 and times <= 5, times .. " times")
    end)

    describe("when the worker is told to quit", function()
        -- How long that takes.
        local function quit()
            local began = support.now()
            assert.equal(0, ng:stop "QUIT")
            return support.now() - began
        end

        it("ends with the last lock", function()
            start()
            local unused = quit()
            support.eventually(function()            -- the machine may be late, but not each time
                start()
                assert.equal("ok", ng:get "/once?wait=5&lease=10")
                local used = quit()
                assert.equal("", ng:complaints())
                return used < unused + 0.8
            end, 20, "an end as soon as without locks, " .. unused .. " s")
        end)

        it("goes on while a request holds one", function()
            start()
            local unused = quit()
            support.eventually(function()
                start()
                local request = ng:begin "/hold"
                support.eventually(function() return (ng:get "/held") == "true" end)
                ng:signal "QUIT"
                assert.equal("true true", request:finish())
                local began = support.now()
                assert.equal(0, ng.proc:wait(20))
                assert.equal("", ng:complaints())
                return support.now() - began < unused + 0.8
            end, 20, "an end as soon as without locks, " .. unused .. " s")
        end)
    end)
end)
