-- Two calls for one hold at once, each pair of them: whichever is answered first, nobody
-- touches a lease that is let go, and nobody is told of a loss that was none.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"

describe("of two calls for one hold", function()
    local cluster = support.shared_cluster(3)

    -- another() is connected through `proxies`, which keep answers while hold(true).
    local PROXIES = [[
        local support = require "spec.support"
        local redlock = require "redlock"
        local touched = require("spec.support.handles").watch()
        local proxies = {}
        for i, port in ipairs { PORTS } do
            proxies[i] = require("spec.support.proxy").proxy(port)
        end
        local function hold(on)
            for _, proxy in ipairs(proxies) do proxy:hold("down", on) end
        end
        local function connected(c)
            for _, node in ipairs(c:stats().nodes) do
                if not node.ready or node.in_flight > 1 then return false end
            end
            return #c:stats().nodes > 0
        end
        local n = 0
        -- A client with connections of its own, so that they end with it.
        local function another(opts)
            n = n + 1
            local o = { nodes = {}, timeout = 5, connect_timeout = 10, cluster = "spec",
                max_waiting = 1000 + n }
            for i, proxy in ipairs(proxies) do o.nodes[i] = proxy.uri end
            for key, value in pairs(opts) do o[key] = value end
            return redlock.new(o)
        end
    ]]

    -- The calls, and what may come of them.
    local CALLS = [[
        -- What a call comes to, in a word.
        local function result(call, l)
            local fine, ok, err = pcall(call, l)
            return not fine and "raised " .. ok or ok == nil and err.code or tostring(ok)
        end
        local CALLS = {
            extend = function(l) return l:extend(9) end,
            unlock = function(l) return l:unlock() end,
            shut = function(l) return l:unlock { closed_for = 3 } end,
            tryLock = function(l) return l:tryLock(0) end,
            stillMine = function(l) return l:stillMine() end,
            isLocked = function(l) return l:isLocked() end,
            forceUnlock = function(l) return l:forceUnlock() end,
            onLost = function(l) return l:onLost(function() end) end,
            export = function(l)
                local token, err = l:export()
                return token and "exported", err
            end,
            close = function(l) return l.client:close() end,
        }
        local ORDER = { "extend", "unlock", "shut", "tryLock", "stillMine", "isLocked",
            "forceUnlock", "onLost", "export", "close" }
        -- What may be told of a hold when this was called for it as well.
        local function all(code)
            return { extend = code, stillMine = code, unlock = code, shut = code, export = code,
                onLost = code }
        end
        local AFTER = { unlock = all "not_held", shut = all "not_held", export = all "not_held",
            close = all "closed" }
        for _, codes in pairs(AFTER) do
            codes.onLost = codes.onLost == "closed" and "closed" or "true"       -- of the next hold
        end
        AFTER.close.tryLock = "closed"
    ]]

    -- What is to be seen of a hold after call a had begun, and call b was made; `mine`: of what
    -- its owner was told. Prints what is not as it should be.
    local JUDGE = [[
        local function judge(how, a, b, ra, rb, mine, l)
            local name = how .. " " .. a .. "+" .. b .. ": "
            for i = #touched, 1, -1 do print(name .. table.remove(touched)) end
            if ra:find "raised" or rb:find "raised" then print(name .. ra .. ", " .. rb) end
            local wanted = AFTER[a] and AFTER[a][b]
            if wanted and rb ~= wanted and not (b == "tryLock" and rb == "true") then
                print(name .. b .. " was told " .. rb)
            end
            wanted = rb ~= "phase" and AFTER[b] and AFTER[b][a]
            if wanted and ra ~= wanted and (a == "extend" or a == "stillMine") then
                print(name .. a .. " was told " .. ra)
            end
            local shaken = a == "close" or b == "close" or a == "forceUnlock"
                or b == "forceUnlock"
            local lost = l.client:stats().lost
            if not shaken and (mine.lost > 0 or mine.events > 0 or lost > 0) then
                print(name .. "losses: onLost " .. mine.lost .. ", events " .. mine.events
                    .. ", stats " .. lost)
            end
            if mine.lost > 1 or mine.events > 1 then
                print(name .. "told of one loss more than once")
            end
        end
    ]]

    local function run(code)
        local ports = {}
        for i, server in ipairs(cluster) do
            ports[i] = server.port
        end
        local p = support.lua((PROXIES .. CALLS .. JUDGE .. code):gsub("PORTS",
            table.concat(ports, ",")), { stderr = "stdout" })
        local text = p:read_all(120)
        assert.equal("ok\n", text)
        p:wait(5)
    end

    for _, loop in ipairs { "luv", "cqueues" } do
        -- The second is called by a coroutine, or where nobody can wait; the answers to the first
        -- come after that, or are there, but its coroutine has not had its turn.
        for _, how in ipairs { "both wait", "one cannot wait",
            loop == "luv" and "one is answered" or nil } do
            it("in " .. loop .. " " .. how, function()
                run(behaviour.loops[loop] .. ([[
                    local how = "%s"
                    local function race(a, b)
                        local mine = { lost = 0, events = 0 }
                        local client = another { host = HOST, on_event = function(e)
                            if e.type == "lost" then mine.events = mine.events + 1 end
                        end }
                        local l = client:getFencedLock(a .. b, { owner = "me" })
                        assert(l:tryLock(5, 5))
                        while not connected(client) do sleep(0.001) end
                        assert(l:onLost(function() mine.lost = mine.lost + 1 end))
                        local ra, rb
                        hold(true)
                        local function begin(call, done)
                            local begun
                            spawn(function()
                                begun = true
                                done(result(call, l))
                            end)
                            while not begun do sleep(0.001) end
                        end
                        begin(CALLS[a], function(said) ra = said end)
                        if how == "one is answered" then
                            hold(false)
                            if a ~= "close" then
                                support.eventually(function() return connected(client) end)
                            end
                        end
                        if how == "both wait" then
                            begin(CALLS[b], function(said) rb = said end)
                        else
                            local can_wait = HOST.can_wait
                            HOST.can_wait = function() return false end
                            rb = result(CALLS[b], l)
                            HOST.can_wait = can_wait
                        end
                        if how ~= "one is answered" then
                            hold(false)
                        end
                        while not (ra and rb) do sleep(0.001) end
                        sleep(0.002)             -- for who is told of a loss
                        judge(how, a, b, ra, rb, mine, l)
                        client:close()
                        l, client = nil, nil
                        collectgarbage()
                        collectgarbage()
                    end
                    main(function()
                        for _, a in ipairs(ORDER) do
                            for _, b in ipairs(ORDER) do
                                if a ~= "onLost" then race(a, b) end
                            end
                        end
                        print "ok"
                    end)
                ]]):format(how))
            end)
        end
    end

    it("in a plain script one is a future", function()
        run [[
            local STARTS = {
                extend = function(l) return l:extendAsync(9) end,
                unlock = function(l) return l:unlockAsync() end,
                tryLock = function(l) return l:tryLockAsync(0) end,
            }
            local function race(a, b)
                local mine = { lost = 0, events = 0 }
                local client = another { on_event = function(e)
                    if e.type == "lost" then mine.events = mine.events + 1 end
                end }
                local l = client:getFencedLock(a .. b)
                assert(l:tryLock(5, 5))
                while not connected(client) do support.sleep(0.05) l:isLocked() end
                assert(l:onLost(function() mine.lost = mine.lost + 1 end))
                for _, proxy in ipairs(proxies) do proxy:delay("down", 10) end
                local future = STARTS[a](l)
                local rb = result(CALLS[b], l)
                local ra = result(future.get, future)
                l:isValid()
                judge("plain", a, b, ra, rb, mine, l)
                for _, proxy in ipairs(proxies) do proxy:delay("down", 0) end
                client:close()
                l, client, future = nil, nil, nil
                collectgarbage()
                collectgarbage()
            end
            for a in pairs(STARTS) do
                for _, b in ipairs(ORDER) do race(a, b) end
            end
            print "ok"
        ]]
    end)

    -- Extended to 9 s by its holder, of which the answers are late; then it goes to who asks for
    -- 5 s.
    local PASSED = [[
        local client = another { %s }
        local a, b = client:getLock("x", { owner = "A" }), client:getLock("x", { owner = "B" })
        assert(a:tryLock(5, 5))
        %s
        assert(b:remaining() <= 5, "it has " .. b:remaining())
        assert(extended == "not_held", extended)
        assert(client:stats().handed_over == 0 and client:stats().lost == 0)
        local left = b:remainTimeToLive()
        assert(left <= 5, "the servers have " .. left)
        assert(b:unlock())
        client:close()
        print "ok"
    ]]

    it("an extension is not the next holder's, in a loop", function()
        run(behaviour.loops.luv .. "main(function()" .. PASSED:format("host = HOST", [[
            local got, extended
            spawn(function() got = b:tryLock(20, 5) end)
            while client:stats().waiting == 0 do sleep(0.001) end
            sleep(0.02)
            while not connected(client) do sleep(0.001) end
            hold(true)
            spawn(function() extended = result(CALLS.extend, a) end)
            spawn(function() assert(a:unlock()) end)
            sleep(0.02)
            hold(false)
            while not (got and extended) do sleep(0.001) end
        ]]) .. "end)")
    end)

    it("an extension is not the next holder's, in a plain script", function()
        run(PASSED:format("", [[
            local got = b:tryLockAsync(20, 5)
            while not connected(client) do got:get(0.001) end
            for _, proxy in ipairs(proxies) do proxy:delay("down", 10) end
            local extended = a:extendAsync(9)
            assert(a:unlock())
            assert(got:get(20))
            extended = result(extended.get, extended)
            for _, proxy in ipairs(proxies) do proxy:delay("down", 0) end
        ]]))
    end)

    -- What users do in their functions while the library is in the middle of something.
    local CALLBACKS = {
        ["lets go in on_event what ends with it"] = [[
            local client
            local locks = {}
            client = another { on_event = function(e)
                if e.type == "lost" then
                    for i = 1, 5 do locks[i]:unlock() end
                end
            end }
            for i = 1, 5 do locks[i] = client:getLock("e" .. i) end
            for i = 1, 5 do
                assert(locks[i]:tryLock(5, 1.5))
            end
            support.eventually(function() return not locks[1]:isValid() end)
        ]],
        ["lets go in onLost what ends with it, or is closed with it"] = [[
            for _, how in ipairs { "end", "close", "forceUnlock" } do
                local client = another {}
                local locks, told = {}, 0
                for i = 1, 5 do
                    locks[i] = client:getLock("l" .. i)
                    assert(locks[i]:tryLock(5, how == "end" and 1.5 or 5))
                    assert(locks[i]:onLost(function()
                        told = told + 1
                        for k = 1, 5 do locks[k]:unlock() end
                    end))
                end
                if how == "close" then
                    client:close()
                    assert(told == 5, told)
                elseif how == "end" then
                    support.eventually(function() return not locks[1]:isValid() end)
                else
                    locks[1]:forceUnlock()
                    local ok, err = locks[1]:extend()
                    assert(ok == nil and err.code == "lost", tostring(err))
                    assert(told == 1 and not locks[5]:isValid())
                end
            end
        ]],
        ["closes it in onLost"] = [[
            local client = another {}
            local locks = {}
            for i = 1, 5 do
                locks[i] = client:getLock("c" .. i)
                assert(locks[i]:tryLock(5, 1.5))
                assert(locks[i]:onLost(function() client:close() end))
            end
            support.eventually(function() return not locks[1]:isValid() end)
            collectgarbage()
            assert(not locks[2]:isValid() and client.closed)
        ]],
        ["lets go or takes again what is lost while it is entered again"] = [[
            for _, how in ipairs { "tryLock", "unlock" } do
                local l
                local client = another { password_refresh = 0.05, password = function()
                    if l then support.sleep(0.1) end     -- by then it is over
                    return "any", "default"
                end }
                local view = client:getLock "again"
                assert(view:tryLock(5, 1.2))
                l = view
                assert(l:onLost(function()
                    return how == "tryLock" and l:tryLock(5, 5) or l:unlock()
                end))
                support.sleep(1.15)
                assert(l:tryLock(5, 5))
                assert(l:getHoldCount() == (how == "tryLock" and 2 or 1), l:getHoldCount())
                client:close()
            end
        ]],
        ["lets go in the password function of what asks for it"] = [[
            for _, call in ipairs { "extend", "unlock", "stillMine" } do
                local l, busy
                local client = another { password_refresh = 0.001, password = function()
                    if l and not busy then
                        busy = true
                        l:unlock()
                    end
                    return "any", "default"
                end }
                local view = client:getFencedLock "p"
                assert(view:tryLock(5, 5))
                support.sleep(0.002)
                l = view
                local told = result(CALLS[call], view)
                assert(busy and told == "not_held", call .. " " .. told)
                client:close()
            end
        ]],
    }
    for what, code in pairs(CALLBACKS) do
        it("the second is a callback's, who " .. what, function()
            run(code .. " for _, text in ipairs(touched) do print(text) end print 'ok'")
        end)
    end

    it("the first opens the client, whose password function waits", function()
        run(behaviour.loops.luv .. [[ main(function()
            for _, how in ipairs { "close", "tryLock" } do
                local client = another { host = HOST, password = function()
                    sleep(0.05)
                    return "any", "default"
                end }
                local ra, rb
                local function take(l) return l:tryLock(5, 5) end
                local l = client:getLock(how, { owner = 1 })
                spawn(function() ra = result(take, l) end)
                spawn(function() rb = result(how == "close" and CALLS.close or take, l) end)
                while not (ra and rb) do sleep(0.001) end
                assert(ra == (how == "close" and "closed" or "true") and rb == "true", ra .. rb)
                assert((client.core == nil) == (how == "close"))
                assert(l:getHoldCount() == (how == "close" and 0 or 2))
                client:close()
            end
            for _, text in ipairs(touched) do print(text) end
            print "ok"
        end)]])
    end)

    it("one waits in line, and is cancelled before the client is closed", function()
        run(behaviour.loops.luv .. [[ main(function()
            local client = another { host = HOST }
            assert(client:getLock("w", { owner = 0 }):tryLock(5, 5))
            local waiting = {}
            for i = 1, 8 do
                waiting[i] = client:getLock("w", { owner = i }):tryLockAsync(20)
            end
            while client:stats().waiting < 8 do sleep(0.001) end
            sleep(0.01)
            for i = 2, 4 do assert(waiting[i]:cancel()) end
            sleep(0.01)
            client:close()
            for _, text in ipairs(touched) do print(text) end
            print "ok"
        end)]])
    end)

    it("in nginx both wait, or one is killed", function()
        local proxies = support.proxies(cluster)
        support.all(proxies):delay("down", 3)
        local ng = support.nginx { nodes = proxies,
            first = [[ touched = require("spec.support.handles").watch() ]], server = [[
            location /race { content_by_lua_block {
                local touched, print = touched, ngx.say
                ]] .. CALLS .. JUDGE .. [[
                local n = 0
                local DELAY = 0.003
                local function now()
                    ngx.update_time()
                    return ngx.now()
                end
                local function race(a, b, kill)
                    n = n + 1
                    local mine = { lost = 0, events = 0 }
                    local c = redlock.new { nodes = nodes, timeout = 5, cluster = "spec",
                        max_waiting = 1000 + n, on_event = function(e)
                            if e.type == "lost" then mine.events = mine.events + 1 end
                        end }
                    local l = c:getFencedLock(a .. b .. n)
                    local ok, err = l:tryLock(5, 9)
                    assert(ok, tostring(err))
                    assert(l:onLost(function() mine.lost = mine.lost + 1 end))
                    local ra, rb
                    local began = now()
                    local ta = ngx.thread.spawn(function() ra = result(CALLS[a], l) end)
                    local at_once = now() - began < DELAY
                    local tb = ngx.thread.spawn(function() rb = result(CALLS[b], l) end)
                    if kill then
                        ngx.thread.kill(ta)
                        ngx.thread.wait(tb)
                        ra = ra or "killed"
                    else
                        ngx.thread.wait(ta)
                        ngx.thread.wait(tb)
                    end
                    ngx.sleep(0.001)
                    if not kill and at_once then
                        judge("nginx", a, b, ra, rb, mine, l)
                    end
                    c:close()
                    if not at_once then race(a, b, kill) end
                end
                for _, a in ipairs(ORDER) do
                    for _, b in ipairs(ORDER) do
                        if a ~= "onLost" then
                            race(a, b)
                        end
                        if a == "extend" or a == "unlock" or a == "shut" then
                            race(a, b, true)
                        end
                    end
                end
                for i = 1, #touched do print(touched[i]) end
                print "ok"
            } }
            location /killed { content_by_lua_block {
                assert(client:getLock("w", { owner = 0 }):tryLock(5, 9))
                local future = client:getLock("w", { owner = 1 }):tryLockAsync(20, 9)
                local thread = ngx.thread.spawn(function() future:get(0.1) end)
                ngx.sleep(0.05)
                assert(ngx.thread.kill(thread))
                while next(future.sleepers) and #touched == 0 do
                    ngx.sleep(0.01)
                end
                assert(client:getLock("w", { owner = 0 }):unlock())
                assert(future:get(20))
                for i = 1, #touched do ngx.say(touched[i]) end
                ngx.say "ok"
            } }
        ]] }
        assert.equal("ok\n", (ng:get("/race", 120)))
        assert.equal("ok\n", (ng:get("/killed", 60)))
        ng:ends "QUIT"
    end)
end)
