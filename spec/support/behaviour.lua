-- What a client does whatever host it has: pieces of Lua for coroutines of that host, with
-- redlock, client, new(opts) for another client, spawn(fn), sleep(s), now(). Owners are
-- given, as the hosts have different ones. Each ends without an error.
local _M = {}

_M.list = {
    { "takes, keeps and gives back", [[
        local l = client:getLock "a"
        assert(l:tryLock(1))
        assert(l:isValid() and l:isLocked() and l:getHoldCount() == 1)
        assert(l:tryLock() and l:getHoldCount() == 2)
        assert(l:extend())
        assert(l:unlock() and l:unlock())
        assert(l:isLocked() == false)
        local ok, err = l:unlock()
        assert(not ok and err.code == "not_held")
    ]] },
    { "connects, and lets others go on meanwhile", [[
        local c = new { max_waiting = 1001 }        -- a core of its own
        local went_on
        spawn(function()
            sleep(0.001)
            went_on = true
        end)
        assert(c:connect(10) == true)
        for _, node in ipairs(c:stats().nodes) do
            assert(node.ready)
        end
        assert(c:connect(0))
        c:close()
        local ok, err = c:connect(1)
        assert(not ok and err.code == "closed")
        local none = new { nodes = "redis://127.0.0.1:1" }
        local from = now()
        ok, err = none:connect(0.2)
        assert(not ok and err.code == "no_quorum" and err.nodes[1].code == "refused", err)
        assert(now() - from >= 0.19 and went_on)
        none:close()
    ]] },
    { "says whether a majority votes, however many ask", [[
        local c, said = new { max_waiting = 1002 }, 0
        for _ = 1, 20 do
            spawn(function()
                assert(c:health() == true)
                said = said + 1
            end)
        end
        local from = now()
        while said < 20 and now() - from < 20 do sleep(0.001) end
        c:close()
        local ok, err = c:health()
        assert(said == 20 and ok == nil and err.code == "closed")
    ]] },
    { "excludes, and waits no longer than it may", [[
        local a, b = client:getLock("b", { owner = 1 }), client:getLock("b", { owner = 2 })
        assert(a:tryLock(1, 5))
        local ok, err = b:tryLock(0)
        assert(not ok and err.code == "held")
        local from = now()
        ok, err = b:tryLock(0.2)
        assert(not ok and err.code == "held" and now() - from >= 0.19 and now() - from < 5)
        assert(a:unlock())
        assert(b:tryLock(1, 5) and b:unlock())
    ]] },
    { "lets others go on while one waits, and hands the lock on", [[
        local inside, done, most = 0, 0, 0
        for i = 1, 30 do
            spawn(function()
                local l = client:getLock("c", { owner = i })
                assert(l:tryLock(20))
                inside = inside + 1
                most = math.max(most, inside)
                sleep(0.001)
                inside = inside - 1
                assert(l:unlock())
                done = done + 1
            end)
        end
        local from = now()
        while done < 30 and now() - from < 20 do sleep(0.005) end
        assert(done == 30 and most == 1, done .. " " .. most)
        assert(client:stats().handed_over > 0)
        assert(client:getLock("c"):isLocked() == false)
    ]] },
    { "gives permits, places in line and latches", [[
        local inside, most, done, order = 0, 0, 0, {}
        local latch = client:getCountDownLatch "l"
        assert(latch:trySetCount(20))
        for i = 1, 20 do
            spawn(function()
                local permit = assert(client:getSemaphore("s", 3):tryAcquire(60))
                inside = inside + 1
                most = math.max(most, inside)
                repeat sleep(0.001) until most > 1
                inside = inside - 1
                assert(permit:release())
                assert(latch:countDown("p" .. i))
            end)
        end
        assert(latch:await(60))
        assert(most <= 3, most)
        assert(latch:delete())
        local first = client:getFairLock("f", { owner = 0 })
        assert(first:tryLock(5))
        -- Whether so many stand in line on a majority.
        local function stand(count)
            local n, script = 0, "return { 1, redis.call('zcard', KEYS[1]) }"
            for _, said in ipairs(assert(require("redlock.runtime.question").ask(client, {
                subject = "a line", body = script, keys = { "redlock:{f}:queue" } }))) do
                n = n + (said.info >= count and 1 or 0)
            end
            return n >= 2
        end
        for i = 1, 3 do
            spawn(function()
                local l = client:getFairLock("f", { owner = i })
                assert(l:tryLock(60))
                order[#order + 1] = i
                assert(l:unlock())
                done = done + 1
            end)
            repeat sleep(0.01) until stand(i)
        end
        assert(first:unlock())
        local from = now()
        while done < 3 and now() - from < 60 do sleep(0.005) end
        assert(table.concat(order, " ") == "1 2 3", table.concat(order, " "))
        local both = client:getMultiLock { "m1", "m2" }
        assert(both:tryLock(5) and both:unlock())
        assert(client:getRateLimiter("r", 1, 0.05):tryAcquire())
        sleep(1.5)               -- what is left of the line, and of the rate, ends by itself
    ]] },
    { "renews in the background, and tells of a loss", [[
        local c = new { lease = 2 }
        local l = c:getLock("e", { owner = 1 })
        assert(l:lock())
        sleep(2.5)
        assert(l:isValid())
        local why
        l:onLost(function(_, reason) why = reason end)
        assert(c:getLock("e", { owner = 2 }):forceUnlock())
        local from = now()
        while not why and now() - from < 5 do sleep(0.01) end
        assert(why == "forgotten" or why == "expired", tostring(why))
        assert(not l:isValid())
        c:close()
    ]] },
    { "lists locks, and lets others go on meanwhile", [[
        local names, went_on = {}, 0
        for i = 1, 120 do names[i] = ("listed %03d"):format(i) end
        local l = client:getMultiLock(names, { owner = 1 })
        assert(l:tryLock(5, 20))
        spawn(function() sleep(0.01) went_on = went_on + 1 end)
        local list = assert(client:locks("listed *", { rate = 1000 }))
        assert(went_on == 1)
        for i = 1, 120 do
            assert(list[i].name == names[i] and list[i].holder, i)
        end
        assert(#list == 120 and client:holder(names[7]).since)
        local future = client:getLock("listed 001", { owner = 2 }):tryLockAsync(0)
        assert(#assert(client:locks("listed 01?")) == 10 and future:get() == nil)
        assert(l:unlock())
    ]] },
    { "tells an owner before the time of a lock is over, so that it can be renewed", [[
        local l, left, renewed = client:getLock "ending", nil, nil
        assert(l:tryLock(1, 1.5))
        assert(l:onEnding(1, function(mine, s) left, renewed = s, mine:extend(20) end))
        local from, remind = now(), client.host.remind
        while renewed == nil and now() - from < 20 do
            sleep(0.01)
            assert(remind or l:isValid() or left)      -- else its next call tells
        end
        assert(renewed and left > 0 and left <= 1 and l:remaining() > 5, tostring(left))
        l:unlock()
    ]] },
    { "has futures", [[
        local list = {}
        for i = 1, 40 do
            list[i] = client:getLock("f" .. i, { owner = 1 }):tryLockAsync(5, 10)
        end
        assert(redlock.wait_all(list, 10))
        for i = 1, 40 do
            assert(list[i]:get() == true)
            assert(client:getLock("f" .. i, { owner = 1 }):unlockAsync():get(5))
        end
        local a = client:getLock("f", { owner = 1 })
        assert(a:tryLock(1, 10))
        local f = client:getLock("f", { owner = 2 }):tryLockAsync(20)
        local ok, err = f:get(0.1)
        assert(not ok and err.code == "timeout" and not f:isDone())
        assert(f:cancel())
        ok, err = f:get(5)
        assert(not ok and err.code == "cancelled")
        assert(f:cancel() == false)
        assert(a:unlock())
        assert(client:getLock("f"):isLocked() == false)
    ]] },
    { "cancels what has not begun, and what has its answer already", [[
        local a = client:getLock("fa", { owner = 1 })
        for i = 1, 20 do
            local f = a:tryLockAsync(5, 10)
            if i % 2 == 0 then sleep(0.001) end
            if f:cancel() then
                local ok, err = f:get(5)
                assert(not ok and err.code == "cancelled")
                assert(not a:isValid(), "it was cancelled")
            else
                assert(f:get(5) == true and a:unlock())
            end
        end
        local from = now()
        while a:isLocked() and now() - from < 5 do sleep(0.005) end
        assert(not a:isLocked())
    ]] },
    { "ends futures when it is closed, also for who waits for them then", [[
        local c = new {}
        assert(c:getLock("fb", { owner = 1 }):tryLock(1, 10))
        local f = c:getLock("fb", { owner = 2 }):tryLockAsync(20)
        sleep(0.02)
        c:close()
        local from = now()
        assert(redlock.wait_all({ f, f }))
        local ok, err = f:get()
        assert(not ok and err.code == "closed" and now() - from < 5)
        c = new {}
        f = c:getLock("fb", { owner = 2 }):tryLockAsync(5)
        c:close()                -- before it has had its turn
        ok, err = f:get()
        assert(ok or err.code == "closed")       -- the answer may be there already
        assert(redlock.wait_all { f })
    ]] },
    { "has futures that raise what their call raised", [[
        local odd = redlock.primitive { name = "odd", acquire = "return 1",
            release = "return 1", keys = function() error("mine", 0) end }
        local future = client:get(odd, "x"):tryLockAsync()
        local ok, err = pcall(future.get, future, 5)
        assert(not ok and err == "mine" and future:isDone())
    ]] },
    { "lets an owner enter once for each of his coroutines that wait", [[
        local l, done = client:getLock("o", { owner = 1 }), 0
        assert(l:tryLock(1, 20))
        for _ = 1, 3 do
            spawn(function()
                assert(client:getLock("o", { owner = 2 }):tryLock(20))
                done = done + 1
            end)
        end
        sleep(0.05)
        assert(done == 0 and l:unlock())
        local from = now()
        while done < 3 and now() - from < 20 do sleep(0.005) end
        local his = client:getLock("o", { owner = 2 })
        assert(done == 3 and his:getHoldCount() == 3)
        assert(his:unlock() and his:unlock() and his:isValid() and his:unlock())
        assert(client:getLock("o"):isLocked() == false)
    ]] },
    { "runs functions under each kind of lock", [[
        local inside, most, done = {}, {}, 0
        local function enter(what, name, opts)
            opts.wait = 20
            spawn(function()
                local held, value = client:using(name, opts, function(l)
                    inside[what] = (inside[what] or 0) + 1
                    most[what] = math.max(most[what] or 0, inside[what])
                    if what == "read" then
                        local from = now()
                        while most.read < 4 and now() - from < 20 do sleep(0.001) end
                    else
                        sleep(0.002)
                    end
                    inside[what] = inside[what] - 1
                    return l:remaining() > 0 and what
                end)
                assert(held == true and value == what, what)
                done = done + 1
            end)
        end
        for _ = 1, 4 do
            enter("read", "u", { kind = "read" })
            enter("write", "w", { kind = "write" })
            enter("plain", "p", { kind = "plain" })
            enter("fair", "fair", { kind = "fair" })
            enter("two", "s", { permits = 2 })
            enter("several", { "m1", "m2" }, {})
        end
        local from = now()
        while done < 24 and now() - from < 25 do sleep(0.005) end
        assert(done == 24, done)
        assert(most.read == 4, most.read)
        assert(most.two <= 2, most.two)
        for _, what in ipairs { "write", "plain", "fair", "several" } do
            assert(most[what] == 1, what)
        end
        local held, n, left = client:using("w", { kind = "write", wait = 5 }, function(w)
            local ok, count = client:using("w", { kind = "read", wait = 5 }, function(r)
                return r:getHoldCount()
            end)
            assert(ok == true, tostring(count))
            return count, w:isValid()
        end)
        assert(held == true and n == 1 and left)
        for _, name in ipairs { "u", "w", "p", "fair", "m1", "m2" } do
            assert(client:getLock(name):isLocked() == false, name)
        end
        assert(client:getSemaphore("s", 2):availablePermits() == 2)
        sleep(1.5)               -- what is left of the line ends by itself
    ]] },
    { "closes, and who waits is told", [[
        local c = new()
        assert(c:getLock("h", { owner = 1 }):tryLock(1, 20))
        local code
        spawn(function()
            local ok, err = c:getLock("h", { owner = 2 }):tryLock(20)
            code = not ok and err.code
        end)
        sleep(0.05)
        c:close()
        local from = now()
        while not code and now() - from < 5 do sleep(0.01) end
        assert(code == "closed", tostring(code))
        assert(client:getLock("h"):isLocked() == false)
    ]] },
    { "does not say that it has what ended before the loop looked", [[
        local l = client:getLock("blocked", { owner = 1 })
        local function blocked(call)
            local done, ok, err, valid
            spawn(function()
                ok, err = call()
                valid, done = l:isValid(), true
            end)
            local from = now()
            repeat until now() - from > 0.5      -- the answers come meanwhile
            while not done do sleep(0.005) end
            assert(valid == (ok == true), tostring(ok) .. tostring(err))
            return not ok and err.code or nil
        end
        local code = blocked(function() return l:tryLock(0, 0.2) end)
        local late = { expired = true, no_quorum = true }        -- on a busy machine
        assert(code == nil or late[code], code)
        l:unlock()                   -- it was in time, perhaps, and is over by now
        assert(l:tryLock(5, 0.25))
        code = blocked(function() return l:extend(0.3) end)
        assert(code == nil or code == "lost" or code == "not_held", code)
        l:unlock()
    ]] },
}

-- Lua text that defines new() and now(), from `client`.
_M.prelude = [[
    local redlock = require "redlock"
    local function new(opts)
        local o = { nodes = NODES, host = HOST, cluster = "spec", timeout = 5,
            connect_timeout = 10 }
        for key, value in pairs(opts or {}) do o[key] = value end
        return redlock.new(o)
    end
    local client = new()
    local now = client.now
]]

-- How each host runs a coroutine to the end: HOST, spawn, sleep and main(fn).
_M.loops = {
    luv = [[
        local uv = require "luv"
        HOST = require "redlock.host.luv"
        local function spawn(fn) coroutine.wrap(fn)() end
        local function sleep(s)
            local co, timer = coroutine.running(), uv.new_timer()
            timer:start(math.ceil(s * 1000), 0, function()
                timer:close()
                assert(coroutine.resume(co))
            end)
            coroutine.yield()
        end
        local function main(fn)
            spawn(fn)
            uv.run()
        end
    ]],
    cqueues = [[
        local cqueues = require "cqueues"
        local controller = cqueues.new()
        HOST = require "redlock.host.cqueues"
        local function spawn(fn) controller:wrap(fn) end
        local sleep = cqueues.sleep
        local function main(fn)
            spawn(fn)
            assert(controller:loop())
        end
    ]],
    own_loop = [[
        local own = require "examples.own_loop"
        HOST = own.host
        local function spawn(fn) own.Loop.go(coroutine.create(fn)) end
        local sleep = own.Loop.sleep
        local function main(fn)
            spawn(fn)
            own.Loop.run()
        end
    ]],
}

return _M
