-- The servers of a cluster change beside programs that use it.
local cli = require "spec.support.command"
local markers = require "redlock.servers.markers"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local MAX_LEASE, GUARD = quarantine.MAX_LEASE, quarantine.GUARD

local function options(more)
    local o = quarantine.options { patience = 60, restart_guard = true,
        cluster = false }
    for name, value in pairs(more or {}) do
        o[name] = value
    end
    return o
end

-- A client of some servers, opened.
local function client_of(servers, more)
    return support.client(servers:uris(), options(more))
end

-- Waits until all servers of these clients vote.
local function await_votes(...)
    local clients = { ... }
    support.eventually(function()
        local voting, all = 0, 0
        for _, client in ipairs(clients) do
            local found = assert(client:check())
            voting, all = voting + found.voting, all + #found
        end
        return voting == all
    end, 30, "all votes")
end

-- Some servers, of which the first `n` are a cluster that votes.
local function begun(all, n)
    local servers, numbers = support.cluster(all, { new = true, unnamed = true }), {}
    for i = 1, n do
        numbers[i] = i
    end
    local client = client_of(servers:pick(unpack(numbers)):admit(MAX_LEASE))
    await_votes(client)
    return servers, client
end

-- A change that is killed after some writes.
local function kill_change(writes, old, new)
    local write, n = markers.write, 0
    markers.write = function(...)
        n = n + 1
        return n > writes and error "killed" or write(...)
    end
    pcall(old.change, old, new)
    markers.write = write
end

describe("a change of servers", function()
    for name, lists in pairs {
        ["replaces a server"] = { 4, 3, { 4, 2, 3 } },
        ["makes five of three"] = { 5, 3, { 1, 2, 3, 4, 5 } },
        ["makes three of five"] = { 5, 5, { 3, 4, 5 } },
        ["makes one of three"] = { 3, 3, { 1 } },
        ["makes three of one"] = { 3, 1, { 1, 2, 3 } },
    } do
        it(name .. ": no two holders, no token back, whichever list a program has", function()
            local servers, old = begun(lists[1], lists[2])
            local new = client_of(servers:pick(unpack(lists[3])))
            local kept = old:getFencedLock "kept"
            assert.is_true(kept:lock())          -- renewed by the watchdog
            local last = kept:token()
            for _ = 1, 3 do
                local l = old:getFencedLock "counted"
                assert.is_true(l:tryLock(5))
                last = math.max(last, l:token())
                assert.is_true(l:unlock())
            end
            support.fails("config", new:getLock("kept"):tryLock(0.1))      -- before the change
            local t = support.now()
            local plan = assert(old:change(new))
            assert.equal(#lists[3], #plan.stays + #plan.comes)
            local got
            support.eventually(function()
                got = new:getFencedLock("kept"):tryLock(0)
                assert.is_false(got and kept:isValid() or false)
                return got
            end, 30, "the new list's vote")
            assert.is_true(support.now() - t >= GUARD)
            assert.is_false(kept:isValid())
            assert.is_true(new:getFencedLock("kept"):token() > last)
            local l = new:getFencedLock "counted"
            assert.is_true(l:tryLock(5))
            assert.is_true(l:token() > last)
            local err = support.fails("config", old:getLock("other"):tryLock(0))
            assert.matches("belongs to", tostring(err), 1, true)
        end)
    end

    it("may be killed anywhere, and is finished by who runs it again", function()
        local all, clients = {}, {}
        for i = 1, 3 do                          -- side by side, as most of the time is waited
            all[i], clients[i] = begun(4, 3)
        end
        for _, back in ipairs { false, true } do
            local from = back and { 4, 2, 3 } or { 1, 2, 3 }
            local to = back and { 1, 2, 3 } or { 4, 2, 3 }
            for i, servers in ipairs(all) do
                local new = client_of(servers:pick(unpack(to)))
                kill_change(2 * i - (back and 0 or 1), clients[i], new)
                clients[i]:close()
                local old = client_of(servers:pick(unpack(from)))
                assert(old:change(new))
                old:close()
                clients[i] = new
            end
            await_votes(unpack(clients))
            for _, servers in ipairs(all) do
                servers[from[1]]:call "FLUSHALL"         -- it comes again as an empty one
            end
        end
    end)

    it("is finished although servers forgot that it had closed, or was to close", function()
        local clients = {}
        for forget = 1, 3 do
            local servers, old = begun(4, 3)
            local new = client_of(servers:pick(4, 2, 3))
            kill_change(1, old, new)
            for i = 1, forget do
                servers[i]:call "FLUSHALL"
            end
            assert(old:change(new))
            clients[forget] = new
        end
        await_votes(unpack(clients))
    end)

    it("goes on from the clocks where so many forgot that larger tokens may be unknown", function()
        local servers, old = begun(4, 3)
        local l = old:getFencedLock "x"
        servers[2]:call("CONFIG", "SET", "maxmemory", "1")        -- it misses the largest
        for _ = 1, 100 do
            assert.is_true(l:tryLock(5))
            l:unlock()                           -- which may be late on a busy machine
        end
        assert.is_true(l:tryLock(5))
        local last = l:token()
        assert.is_true(l:unlock())
        servers[2]:call("CONFIG", "SET", "maxmemory", "0")
        servers[1]:kill()
        servers[3]:call "FLUSHALL"
        local new = client_of(servers:pick(2, 3, 4))
        assert(old:change(new, { gone = { servers[1].uri } }))
        await_votes(new)
        l = new:getFencedLock "x"
        assert.is_true(l:tryLock(10))
        assert.is_true(l:token() > last)
    end)

    it("refuses a second change by name, and who is in the way", function()
        local servers, old = begun(5, 3)
        local new, other = client_of(servers:pick(4, 2, 3)), client_of(servers:pick(5, 2, 3))
        kill_change(1, old, new)
        local err = support.fails("config", old:change(other))
        assert.matches("closed by a change to {[^}]*" .. servers[4].port,
            tostring(err))
        assert(old:change(new))
        err = support.fails("config", old:change(other))      -- whichever server answers first
        assert.matches("{[^}]*" .. servers[4].port, tostring(err))
        await_votes(new)
        for _, gone in ipairs { "redis://a", { 7 } } do
            assert.has_error(function() new:change(other, { gone = gone }) end)
        end
        err = support.fails("config", new:change(client_of(servers:pick(1, 5))))
        assert.matches("no server stays", tostring(err), 1, true)
        err = support.fails("config", new:change(new))
        assert.matches("these are the servers of the cluster", tostring(err), 1, true)
        servers[4]:kill()
        err = support.fails("config", new:change(other))
        assert.matches("start it; or, if it is stopped permanently, say so", tostring(err), 1, true)
        assert(new:change(other, { gone = { servers[4].uri } }))
        await_votes(other)
    end)

    it("is refused with another name for the list that another one has begun", function()
        local servers, old = begun(4, 3)
        local list = servers:pick(4, 2, 3)
        local one = client_of(list, { cluster = "orders.2" })
        local two = client_of(list, { cluster = "b" })
        local write = markers.write
        markers.write = function(client, ...)
            local ok = write(client, ...)
            return client == one and error "killed" or ok
        end
        pcall(old.change, old, one)
        markers.write = write
        local err = support.fails("config", old:change(two))
        assert.matches("belongs to cluster orders.2", tostring(err), 1, true)
        assert(old:change(one))
        await_votes(one)
    end)

    it("that is unfinished says so, and to what, whichever list one has", function()
        local servers, old = begun(4, 3)
        local new = client_of(servers:pick(4, 2, 3))
        kill_change(2, old, new)
        local says = "closed by a change to {127.0.0.1:%d+ 127.0.0.1:%d+ 127.0.0.1:%d+}: finish it"
        for _, client in ipairs { old, new } do
            local found
            support.eventually(function()
                found = assert(client:check())
                return found[2].why == "changing"
            end, 10, "why")
            assert.matches(says, tostring(found))
            assert.equal("error", found.verdict)
            support.eventually(function()            -- it has read the list
                return tostring(select(2, client:getLock("x"):tryLock(0))):find(says)
            end, 10, "an error")
        end
        local metrics = require("redlock.metrics").new()
        local counted = client_of(servers:pick(1, 2, 3), { metrics = metrics })
        support.eventually(function()
            counted:getLock("x"):tryLock(0)
            return metrics:text():find("redlock_server_changing{[^}]*} 1")
        end, 10, "a metric")
        counted:close()
        assert(old:change(new))
        local row = assert(old:check())[1]           -- it is closed, and is not in the new list
        assert.equal("other_cluster", row.why)
        assert.matches("give this program the new list", row.remedy, 1, true)
        await_votes(new)
    end)

    it("gives the floors of servers that go to those that stay", function()
        local servers, old = begun(5, 5)
        local function count(n)
            local token
            for _ = 1, n do
                local l = old:getFencedLock "x"
                token = select(2, assert(l:tryLock(5)))
                l:unlock()                       -- which may be late on a busy machine
            end
            return token
        end
        count(1)
        for i = 4, 5 do
            servers[i]:call("CONFIG", "SET", "maxmemory", "1")
        end
        local last = count(100)
        for i = 4, 5 do
            servers[i]:call("CONFIG", "SET", "maxmemory", "0")
        end
        local new = client_of(servers:pick(3, 4, 5))
        assert(old:change(new))
        for i = 1, 2 do
            servers[i]:kill()
        end
        await_votes(new)
        servers[3]:kill()
        local l = new:getFencedLock "x"
        assert.is_true(l:tryLock(5))
        assert.is_true(l:token() > last)
    end)
end)

describe("one server without the guard", function()
    it("is left by a program that uses it alone when others use the guard", function()
        local servers = support.cluster(3, { new = true })
        local alone = support.client({ servers[1].uri }, quarantine.options { restart_guard = false,
            cluster = false })
        local held = alone:getLock "x"
        assert.is_true(held:lock())
        local together = client_of(servers)
        local got
        support.eventually(function()
            got = together:getLock("x"):tryLock(0)
            assert.is_false(got and held:isValid() or false)
            return got
        end, 30, "the vote")
        local err = support.fails("config", alone:getLock("y"):tryLock(0))
        assert.matches("belongs to", tostring(err), 1, true)
    end)

    it("keeps init from admitting it beside that program", function()
        local servers = support.cluster(3, { new = true })
        local alone = support.client({ servers[1].uri }, { restart_guard = false, cluster = false })
        assert.is_true(alone:getLock("x"):tryLock(0))
        local err = support.fails("config", client_of(servers, { max_lease = 60 }):init())
        assert.matches("may hold locks", tostring(err), 1, true)
    end)
end)

describe("redlock change", function()
    it("shows the difference, asks, and waits until all vote", function()
        local servers = begun(4, 3)
        local home = support.tmpdir()
        assert.is_true(support.sh("mkdir " .. home .. "/.config"))
        require("spec.support.sys").write_file(home .. "/.config/redlock.conf",
            ("max_lease = %g\nlease = %g\n"):format(MAX_LEASE, MAX_LEASE))
        local function redlock(...)
            return cli.ends(cli.start(servers:pick(1, 2, 3), home, {}, ...))
        end
        local list = servers:pick(4, 2, 3):uris()
        local status, text = redlock("change", unpack(list))
        assert.equal(125, status, text)
        assert.matches("comes +" .. servers[4].uri:gsub("%p", "%%%0"), text)
        assert.matches("goes +" .. servers[1].uri:gsub("%p", "%%%0"), text)
        assert.matches("nobody to ask", text, 1, true)
        list[#list + 1] = "--yes"
        status, text = redlock("change", unpack(list))
        assert.equal(0, status, text)
        assert.matches("3 of 3 servers vote", text, 1, true)
    end)
end)
