-- Servers whose wall clocks are stepped. Redis expires keys by it: a step forward frees locks
-- before their time.
local support = require "spec.support"

local MAX_LEASE = 20

-- A client that collects its events, also those of a process that only waits.
local function observer(cluster, more)
    local events = {}
    local o = { max_lease = MAX_LEASE, lease = 10, on_event = function(e)
        events[#events + 1] = e
    end }
    for name, value in pairs(more or {}) do
        o[name] = value
    end
    return support.warm_client(cluster, o), function(kind, node)
        for _, e in ipairs(events) do
            if e.type == kind and (not node or e.node == node.uri) then
                return e
            end
        end
    end
end

local function turn(client)
    client:getLock("turn"):isLocked()
end

describe("a server whose clock is stepped", function()
    for _, step in ipairs { 60, -60 } do
        it(("by %+d s does not vote on acquires; it extends and releases"):format(step), function()
            local cluster = support.cluster(3, { clocks = true }):admit(MAX_LEASE)
            local client, event = observer(cluster)
            local held = client:getLock "held"
            assert.is_true(held:tryLock())
            cluster[3].clock:set(step)
            -- The watchdog's thread looks once a second; nobody calls meanwhile.
            support.eventually(function()
                held:isValid()                       -- tells of events, asks no server
                return event("node_suspect", cluster[3])
            end)
            local e = event("node_suspect", cluster[3])
            assert.is_true(math.abs(e.step - step) < 5, e.step)
            assert.is_true(e.left > 15 and e.left <= MAX_LEASE * 1.01 + 1, e.left)
            assert.is_nil(event("node_suspect", cluster[1]))

            cluster[2]:call("SET", "x", "somebody", "PX", 60000)
            local ok, err
            support.eventually(function()        -- it may have been late
                ok, err = client:getLock("x"):tryLock()
                return not ok and err.nodes[3].code == "guarded"
            end)
            assert.matches("its clock was stepped.*; ", err.nodes[3].message)
            assert.equal(0, cluster[3]:call("EXISTS", "x"))

            -- It keeps the key of a hold. After a step ahead, which may have ended keys, its yes
            -- does not count; a step back ends none.
            support.eventually(function()
                assert.is_true((held:extend()))
                return cluster[3]:call("EXISTS", "held") == 1
            end)
            cluster[2]:call("DEL", "held")
            ok, err = held:extend()
            assert.equal(step < 0, ok == true, tostring(err))
            assert.is_true(held:isValid())
            assert.is_true(held:unlock())
            support.eventually(function() return cluster[3]:call("EXISTS", "held") == 0 end)
            local report = client:check()
            assert.equal("error", report[3].verdict)
            assert.matches("its clock was stepped", report[3].remedy)
        end)
    end

    -- By more than fits that lease, less than fits the other one.
    it("is found by the shortest lease of clients that share its connections", function()
        local cluster = support.cluster(3, { clocks = true }):admit(60)
        local ng = support.nginx { nodes = cluster, options = "lease = 50, on_event = note",
            first = [[ seen = {}
                function note(e)
                    if e.type == "node_suspect" then seen[e.node] = "suspect" end
                end ]],
            init = [[ short = redlock.new { nodes = nodes, cluster = "spec", timeout = 2,
                connect_timeout = 5, lease = 3 } ]],
            server = [[ location = /turn { content_by_lua_block {
                for _, c in ipairs { client, short } do c:getLock("turn"):isLocked() end
                client:check()           -- waits for each server's clock
                ngx.print(seen[nodes[3] ])
            } } ]] }
        ng:get "/turn"
        assert.equal(1, cluster[3]:connections())
        cluster[3].clock:set(0.4)
        support.eventually(function() return ng:get "/turn" == "suspect" end, 30)
        ng:ends "QUIT"
    end)

    it("is found by the acquire itself", function()
        local cluster = support.cluster(3, { clocks = true }):admit(MAX_LEASE)
        local client, event = observer(cluster)
        turn(client)
        support.sleep(1.1)
        cluster[3].clock:set(60)
        cluster[2]:call("SET", "x", "somebody", "PX", 60000)
        local ok, err = client:getLock("x"):tryLock(0, 10)
        assert.is_nil(ok)
        assert.equal("guarded", err.nodes[3].code)
        support.eventually(function() return cluster[3]:call("EXISTS", "x") == 0 end)
        turn(client)
        assert.truthy(event("node_suspect", cluster[3]))
    end)

    it("votes again when the locks that it may have lost are over", function()
        local cluster = support.cluster(3, { clocks = true }):admit(0.5)
        local client = support.warm_client(cluster, { max_lease = 0.5, lease = 0.4 })
        support.sleep(1.1)
        local t = support.now()
        cluster[3].clock:set(60)
        turn(client)
        cluster[2]:call("SET", "x", "somebody", "PX", 60000)
        local l = client:getLock "x"
        support.eventually(function() return l:tryLock() end, 10)
        assert.is_true(support.now() - t >= 1.4, support.now() - t)
        assert.is_true(l:unlock())
    end)

    it("is waited for by lock(), beyond its patience, with the guard and without", function()
        for _, guard in ipairs { true, false } do
            local cluster = support.cluster(3, { clocks = true, new = true })
            if guard then
                cluster:admit(0.5)
            end
            local client = support.warm_client(cluster, { max_lease = 0.5, lease = 0.4,
                restart_guard = guard, patience = 0.2, fallback = 0.1 })
            support.sleep(1.1)
            local t = support.now()
            cluster[2].clock:set(60)
            cluster[3].clock:set(60)
            assert.is_true(client:getLock("x"):lock())
            assert.is_true(support.now() - t >= 1.4, support.now() - t)
            assert.is_true(client:getLock("x"):unlock())
        end
    end)

    it("by less than the drift allowance is not suspect", function()
        local cluster = support.cluster(3, { clocks = true }):admit(MAX_LEASE)
        local client, event = observer(cluster)
        local l = client:getLock "x"
        assert.is_true(l:tryLock())
        cluster[3].clock:set(0.05)              -- of 0.102 s
        support.sleep(1.5)
        turn(client)
        assert.is_nil(event "node_suspect")
        assert.is_true(l:unlock())
    end)
end)

-- One holds it, a server steps, another one asks for it as fast as it can. Whether both
-- held it at one time is asked of the first when the second has it: one clock, one process.
local function contend(cluster, holder, rival, stepping)
    local a, b = holder:getLock "x", rival:getLock "x"
    support.eventually(function()            -- on all, also if one was late
        assert.is_true(a:tryLock(0, MAX_LEASE))
        local n = 0
        cluster:each(function(s) n = n + s:await_idle():call("EXISTS", "x") end)
        return n == #cluster or not a:unlock()
    end)
    local double, k, ends = 0, 0, support.now() + MAX_LEASE / 2       -- if the machine is slow
    while k < 40 and support.now() < ends do
        k = k + 1
        cluster[stepping].clock:set(k % 2 == 0 and -60 or 60)
        for _ = 1, 5 do
            if b:tryLock(0, 2) then
                double = double + (a:isValid() and 1 or 0)
                b:unlock()
            end
        end
    end
    return double, a
end

describe("a majority whose clocks are stepped forward", function()
    it("ends what is held there, within a second or so", function()
        local cluster = support.cluster(3, { clocks = true }):admit(MAX_LEASE)
        local client, event = observer(cluster)
        local l = client:getLock "x"
        assert.is_true(l:tryLock(0, MAX_LEASE))
        local kept, asked = client:getLock "kept", client:getLock "asked"
        assert.is_true(kept:tryLock() and asked:tryLock(0, MAX_LEASE))
        cluster:each(function(s) s.clock:set(60) end)
        support.fails("lost", asked:stillMine())           -- its holder need not wait for that
        support.eventually(function() return not l:isValid() and not kept:isValid() end, 10)
        assert.equal("lost", event "lost" and event("lost").type)
    end)
end)

describe("a stepping server", function()
    it("of five never frees a lock that sits on all five", function()
        local cluster = support.cluster(5, { clocks = true }):admit(MAX_LEASE)
        for stepping = 1, 5 do               -- clients that have not seen another one step
            local holder = support.warm_client(cluster, { max_lease = MAX_LEASE, lease = 10 })
            local rival = support.warm_client(cluster, { max_lease = MAX_LEASE, lease = 10 })
            local double, a = contend(cluster, holder, rival, stepping)
            assert.equal(0, double)
            assert.is_true(a:unlock())
            cluster[stepping].clock:set(0)
            holder:close()
            rival:close()
            cluster:admit(MAX_LEASE)             -- they may have written the step down
        end
    end)

    -- Nothing can prevent that: the one who asks has never seen the clock before.
    it("may free a lock that sits on a bare majority; the holder is told", function()
        local cluster = support.cluster(3, { clocks = true }):admit(MAX_LEASE)
        local client, event = observer(cluster)
        cluster[3]:call("SET", "x", "somebody", "PX", 60000)
        local l, lost = client:getLock "x", nil
        assert.is_true(l:tryLock())
        l:onLost(function(_, why) lost = why end)
        client:check()                               -- the third has refused it by now
        cluster[3]:call("DEL", "x")
        cluster[2].clock:set(60)
        local double = support.client(cluster, { max_lease = MAX_LEASE, lease = 10 }):getLock "x"
        assert.is_true(double:tryLock(0, 10))
        assert.is_true(l:isValid() or lost == "taken")   -- both, if it has not looked just now
        support.eventually(function()
            turn(client)
            return event("node_suspect", cluster[2])
        end)
        support.eventually(function()
            turn(client)
            return lost
        end, 8)
        assert.equal("taken", lost)
        assert.equal("taken", event("lost").reason)
        assert.is_true(double:isValid())
    end)
end)
