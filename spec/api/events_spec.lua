-- What on_event is told of servers: they come, go, and are refused; once for each change.
local redlock = require "redlock"
local support = require "spec.support"

describe("events of servers", function()
    local told, client

    local function listen(e)
        if e.type:find "^node_" then
            told[#told + 1] = e
        end
    end

    -- The events so far, as "<what> <node's number> <code>"; where the first and the third are
    -- one, either may be refused: as if the third was.
    local function types()
        local list, numbers = {}, {}
        for k, node in ipairs(client.options.nodes) do
            numbers[node.label] = k
        end
        for _, e in ipairs(told) do
            if e.type == "node_refused" and e.code == "config" and numbers[e.node] == 1 then
                numbers[client.options.nodes[3].label], numbers[e.node] = 1, 3
            end
        end
        for i, e in ipairs(told) do
            list[i] = ("%s %d %s"):format(e.type, numbers[e.node], e.code or "-")
        end
        table.sort(list)
        return list
    end

    -- Uses the client until it was told of all that is expected; and no more than that, while it
    -- goes on.
    local function hears(...)
        local expected = { ... }
        table.sort(expected)
        local function use()
            local ok = client:getLock("x"):tryLock(0.1)
            if ok then
                client:getLock("x"):unlock()
            end
            return #types() >= #expected
        end
        support.eventually(use, 15, function() return table.concat(types(), ", ") end)
        assert.same(expected, types())
        local attempts = client:stats().nodes[2].requests
        support.eventually(function()
            use()
            return client:stats().nodes[2].requests > attempts + 20
        end, 30)
        support.sleep(0.5)       -- some attempts to connect
        use()
        assert.same(expected, types())
        return told
    end

    -- It is guarded before, if the client finds it between its start and its admission.
    local function hears_that_3_is_up()
        local up
        support.eventually(function()
            if client:getLock("x"):tryLock(0.1) then
                client:getLock("x"):unlock()
            end
            for _, word in ipairs(types()) do
                up = up or word == "node_up 3 ok"
            end
            return up
        end, 15)
    end

    local function open(nodes, opts)
        opts = opts or {}
        opts.on_event, opts.connect_timeout, opts.timeout = listen, 5, 5
        told = {}
        client = support.client(nodes, opts)
    end

    after_each(function() client:close() end)

    it("that are down from the start", function()
        local cluster = support.cluster(2)
        local port = support.free_port()
        open { cluster[1], cluster[2], "redis://127.0.0.1:" .. port }
        local e = hears("node_up 1 ok", "node_up 2 ok", "node_down 3 refused")
        for i = 1, 3 do
            if e[i].type == "node_down" then
                assert.equal("connect: Connection refused", e[i].message)
            end
        end
    end)

    it("that go and come", function()
        local cluster = support.cluster(3)
        open(cluster)
        hears("node_up 1 ok", "node_up 2 ok", "node_up 3 ok")
        told = {}
        cluster[3]:kill()
        hears "node_down 3 refused"
        told = {}
        cluster[3]:start():admit()
        hears_that_3_is_up()
    end)

    it("that are replicas", function()
        local cluster = support.cluster(3)
        -- Not before all is told: with the other's data comes the other's marker.
        local master = support.server()
        master:call("CONFIG", "SET", "repl-diskless-sync", "yes")
        master:call("CONFIG", "SET", "repl-diskless-sync-delay", "60")
        cluster[3]:call("REPLICAOF", "127.0.0.1", master.port)
        open(cluster)
        hears("node_up 1 ok", "node_up 2 ok", "node_refused 3 readonly")
        for _, e in ipairs(told) do
            if e.type == "node_refused" then
                assert.matches("^a replica of 127.0.0.1:" .. master.port, e.message)
            end
        end
        told = {}
        cluster[3]:call("REPLICAOF", "NO", "ONE")
        cluster[3]:admit()
        hears_that_3_is_up()
    end)

    it("that are one, under two addresses", function()
        local cluster = support.cluster(2, { unixsocket = true })
        open { cluster[1], cluster[2], "unix://" .. cluster[1].socket }
        hears("node_up 1 ok", "node_up 2 ok", "node_refused 3 config")
        for _, e in ipairs(told) do
            if e.type == "node_refused" then
                assert.matches("^the same server under two addresses", e.message)
            end
        end
    end)

    it("that do not say that they are one", function()
        local cluster = support.cluster(2, { unixsocket = true })
        cluster[1]:user("app", "on", ">pw", "~*", "&*", "+@all", "-info")
        local uri = "redis://app:pw@127.0.0.1:" .. cluster[1].port
        open { uri, cluster[2], "unix://app:pw@" .. cluster[1].socket }
        hears("node_up 1 ok", "node_up 2 ok", "node_up 3 ok", "node_refused 3 config")
        local function is_named(row)
            return row.verdict == "error"
                and row.remedy:find "^the same server under two addresses; name each server once"
        end
        support.eventually(function()
            local report = client:check()
            return is_named(report[1]) or is_named(report[3])
        end)
    end)

    it("that were set up with another max_lease", function()
        local cluster = support.cluster(3)
        cluster[2]:admit(30)
        open(cluster)
        hears("node_up 1 ok", "node_up 2 ok", "node_up 3 ok", "node_refused 2 config")
        told = {}
        assert.is_true(client:init { force = true })
        hears "node_admitted 2 -"
    end)

    it("that want another password", function()
        local cluster = support.cluster(3)
        open { cluster[1], cluster[2], "redis://:wrong@127.0.0.1:" .. cluster[3].port }
        hears("node_up 1 ok", "node_up 2 ok", "node_refused 3 auth")
        told = {}
        cluster[3]:kill()
        hears "node_down 3 refused"
    end)
end)

describe("renewed", function()
    local function sorted(set)
        local list = {}
        for name in pairs(set) do
            list[#list + 1] = name
        end
        table.sort(list)
        return list
    end

    -- An on_event that counts in `told` how often each name was renewed.
    local function counting(told)
        return function(e)
            for _, name in ipairs(e.type == "renewed" and e.names or {}) do
                told[name] = (told[name] or 0) + 1
                assert(#e.names <= e.count)
            end
        end
    end

    it("names the locks that the watchdog has renewed, of each client its own", function()
        local world = redlock.testing.new { nodes = 3 }
        local told, clients = { {}, {} }, {}
        for i = 1, 2 do
            clients[i] = world:client { lease = 3, on_event = counting(told[i]) }
            for k = 1, 3 do
                assert(clients[i]:getLock(("l%d.%d"):format(i, k)):tryLock(5))
            end
            assert(clients[i]:getLock("fixed" .. i):tryLock(5, 30))
        end
        for _ = 1, 4 do
            world:advance(1)
            for _, c in ipairs(clients) do
                c:getLock("x"):isValid()
            end
        end
        for i = 1, 2 do
            for k = 1, 3 do
                assert.is_true(told[i][("l%d.%d"):format(i, k)] >= 2)
            end
            assert.equal(3, #sorted(told[i]))
        end
        world:close()
    end)

    it("counts those whose names are forgotten", function()
        local cluster, count, names = support.cluster(1), 0, nil
        local client = support.client(cluster, { lease = 2.1, on_event = function(e)
            if e.type == "renewed" then
                count, names = count + e.count, #e.names
            end
        end })
        local futures = {}
        for i = 1, 1500 do
            futures[i] = client:getLock("n" .. i):tryLockAsync(5)
        end
        assert(redlock.wait_all(futures))
        local from = client.now()
        count = 0
        support.sleep(3)         -- nobody asks for the events
        local renewals = support.eventually(function()
            client:getLock("x"):isValid()
            return count > 4096 and count
        end, 20)
        assert.is_true(renewals <= 1500 * ((client.now() - from) / 0.7 + 2), renewals)
        assert.is_true(names <= 1500)
        client:close()
    end)
end)

describe("the error of a round", function()
    it("says what is known of servers that it was decided without", function()
        local cluster = support.cluster(3)
        local client = support.warm_client(cluster)
        local function rows()
            local _, err = client:getLock("x"):tryLock(0)
            assert.equal("no_quorum", err.code)
            local codes = {}
            for i, row in ipairs(err.nodes) do
                codes[i] = row.code
            end
            return codes, err.nodes
        end
        cluster[1]:kill()
        cluster[2]:kill()
        support.eventually(function()
            local codes, nodes = rows()
            return codes[1] == "refused" and codes[2] == "refused" and codes[3] == "pending"
                and nodes[3].message == "connected; it was decided before it was asked"
        end, 10)
        cluster[3]:kill()
        for _ = 1, 20 do
            support.eventually(function()
                local codes, nodes = rows()
                return codes[3] == "refused" and nodes[3].message:find "Connection refused"
            end, 10)
            assert.same({ "refused", "refused", "refused" }, (rows()))
        end
        client:close()
    end)
end)

describe("what becomes of a hold", function()
    it("is told when it is released or lost, and for how long it was held", function()
        local cluster, seen = support.cluster(3), {}
        local client = support.warm_client(cluster, { on_event = function(e)
            if e.type == "released" or e.type == "lost" then
                seen[#seen + 1] = e
            end
        end })
        local l = client:getFencedLock("x", { traceparent = "00-" .. ("a"):rep(32) .. "-"
            .. ("b"):rep(16) .. "-01" })
        assert(l:tryLock(5) and l:tryLock(5))
        support.sleep(0.05)
        assert(l:unlock())
        assert.same({}, seen)                            -- held still
        assert(l:unlock())
        assert.same({ "released", "x", l.traceparent }, { seen[1].type, seen[1].name,
            seen[1].traceparent })
        assert.is_true(seen[1].held >= 0.049 and seen[1].held < 60)
        assert.is_nil(seen[1].code)
        assert(client:getLock("y"):tryLock(5, 50))
        cluster:each(function(s) s:call("SET", "y", "theirs", "PX", 5000) end)
        support.fails("held", client:getLock("y"):unlock())
        assert.same({ 2, "lost", "taken" }, { #seen, seen[2].type, seen[2].reason })
        assert.is_true(seen[2].held >= 0 and seen[2].held < 60)
        assert(client:getLock("z"):tryLock(5, 50))
        client:close()
        assert.same({ 3, "lost", "closed" }, { #seen, seen[3].type, seen[3].reason })
    end)
end)
