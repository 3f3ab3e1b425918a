-- The list of servers changes while locks are held: what each rule of policy/members.lua is for.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

local MAX_LEASE = quarantine.MAX_LEASE
local RECORD, MARKER = "redlock:{server}:members", "redlock:{server}:marker"

describe("the list of servers", function()
    local cluster

    local function new_client(servers, more)
        local options = quarantine.options { timeout = 2, connect_timeout = 5, patience = 60 }
        for name, value in pairs(more or {}) do
            options[name] = value
        end
        return support.warm_client(servers, options)
    end

    after_each(support.cleanup)

    -- n servers in a list that may change, and more that are in none.
    local function begin(n, more)
        cluster = support.cluster(n + more, { new = true })
        local servers = {}
        for i = 1, n do
            servers[i] = cluster[i]
        end
        local client = new_client(servers)
        assert(client:init())
        assert(client:members { online = true })
        return client, servers
    end

    -- Who is in the list, by their numbers in the cluster.
    local function who(list)
        local found = {}
        for i, server in ipairs(cluster) do
            for _, member in ipairs(list) do
                found[#found + 1] = member.node == server.uri and i or nil
            end
        end
        return found
    end

    local function read_marker(server)
        local text = server:call("GET", MARKER) or ""
        local inc, state, view = text:match "^(%x+) v2 (%a) %x+ %d+ %d+ (%S+)"
        return { inc = inc, state = state, view = view,
            epoch = tonumber((view or ""):match "%.(%d+)%.") }
    end

    -- ---- who may change it -----------------------------------------------------------

    it("does not change before all servers know that it may", function()
        cluster = support.cluster(5, { new = true })
        local client = new_client { cluster[1], cluster[2], cluster[3] }
        support.fails("config", client:members())
        assert(client:init())
        local _, err = client:members { add = cluster[4].uri }
        assert.equal("config", err.code)
        assert.matches("redlock members online on", tostring(err))
        assert.equal(2, client:members().epoch)
        assert.equal(2, assert(client:members { finish = true }).epoch)
        assert.is_true(assert(client:members { online = true }).online)
        assert.equal(4, assert(client:members { online = true }).epoch)       -- it is so already
        assert.same({ 1, 2, 3, 4 }, who(assert(client:members { add = cluster[4].uri }).list))
    end)

    it("is told to all of them, not to a majority", function()
        cluster = support.cluster(3, { new = true })
        local client = new_client(cluster)
        assert(client:init())
        cluster[3]:kill()
        local waited
        support.fails("config", client:members { online = true, progress = function(what)
            waited = waited or what:find(cluster[3].uri, 1, true)
        end })
        assert.is_truthy(waited)
        assert.equal(2, client:members().epoch)
    end)

    it("loses none of an odd number, and takes one out of an even number", function()
        local client = begin(3, 1)
        local _, err = client:members { remove = cluster[3].uri }
        assert.equal("config", err.code)
        assert.matches("list of 3 servers cannot lose one", tostring(err))
        assert(client:members { add = cluster[4].uri })
        local found = assert(client:members { remove = cluster[3].uri })
        assert.same({ 1, 2, 4 }, who(found.list))
        assert.equal("r", read_marker(cluster[3]).state)
        found = assert(client:members { remove = cluster[1].uri, add = cluster[3].uri })
        assert.same({ 2, 3, 4 }, who(found.list))            -- who had left begins anew
        assert.is_true(found.list[1].votes and found.list[2].votes and found.list[3].votes)
    end)

    it("has no server twice, none by itself, and none of another list", function()
        local client = begin(3, 3)
        local other = new_client { cluster[4], cluster[5], cluster[6] }
        assert(other:init())
        local a, b = cluster[1].uri, cluster[4].uri
        assert.has_error(function() client:members { remove = a, add = a } end)
        assert.has_error(function() client:members { add = "redis://u:p@10.0.0.9" } end)
        assert.has_error(function() client:members { add = b, online = true } end)
        assert.has_error(function() client:members { add = 4 } end)
        assert.has_error(function() client:members { ad = b } end)
        support.fails("config", client:members { add = a, remove = cluster[2].uri })
        support.fails("config", client:members { remove = b, add = cluster[5].uri })
        local function refused(uri, why)
            local _, err = client:members { add = uri }
            assert.matches(why, tostring(err))
        end
        refused((a:gsub("127.0.0.1", "localhost")), "is the server " .. a:gsub("%p", "%%%0"))
        refused(b, "belongs to another list of servers")
        cluster[4]:kill()
        refused(b, "cannot be added")
        assert.equal(4, client:members().epoch)
    end)

    it("is not changed by who calls the servers by other names", function()
        local client = begin(3, 1)
        client:close()
        local names = {}
        for i = 1, 3 do
            names[i] = (cluster[i].uri:gsub("127.0.0.1", "localhost"))
        end
        local other = new_client(names)
        assert.equal(3, #assert(other:members()).list)
        local _, err = other:members { add = cluster[4].uri }
        assert.matches("give it the servers as the list has them", tostring(err))
        assert.is_true((other:getLock("x"):tryLock(5)))
    end)

    -- ---- what it waits for -----------------------------------------------------------

    it("waits for a guard time between the two lists, and says so", function()
        local client = begin(3, 1)
        local joint, stable, told
        local found = assert(client:members { remove = cluster[1].uri, add = cluster[4].uri,
            progress = function(what, seconds, of)
                local epoch = read_marker(cluster[2]).epoch
                joint = joint or epoch == 5 and support.now()
                stable = stable or epoch == 6 and support.now()
                told = told or what:find "under the old list" and seconds == of and of
            end })
        assert.equal(6, found.epoch)
        assert.is_true((stable or support.now()) - joint >= quarantine.GUARD)
        assert.near(quarantine.GUARD, told, 0.01)
        assert.is_true(found.list[1].votes and found.list[2].votes and found.list[3].votes)
    end)

    it("changes without a server that is gone", function()
        local client = begin(3, 1)
        cluster[1]:kill()
        local found = assert(client:members { remove = cluster[1].uri, add = cluster[4].uri })
        assert.same({ 2, 3, 4 }, who(found.list))
        cluster[2]:kill()
        assert.is_true((client:getLock("x"):tryLock(5)))      -- by the third and the fourth
    end)

    it("does not begin while its change would leave no majority", function()
        local client = begin(3, 1)
        cluster[2]:kill()
        local _, err = client:members { add = cluster[4].uri }
        assert.equal("config", err.code)
        assert.matches("too few servers vote: " .. cluster[2].uri:gsub("%p", "%%%0")
            .. " %(does not answer%)", tostring(err))
        assert.equal(4, client:members().epoch)
        assert.is_true((client:getLock("x"):tryLock(5)))
    end)

    it("is not put in force when a server that stays has forgotten meanwhile", function()
        local client = begin(3, 1)
        local inc, again
        local found = assert(client:members { remove = cluster[1].uri, add = cluster[4].uri,
            progress = function(what)
                if what:find "under the old list" and not inc then
                    inc = read_marker(cluster[2]).inc
                    cluster[2]:restart()
                elseif inc and read_marker(cluster[3]).epoch == 6 then
                    again = again or read_marker(cluster[2])
                end
            end })
        assert.equal(6, found.epoch)
        again = again or read_marker(cluster[2])
        assert.equal("a", again.state)          -- through its quarantine, when it came into force
        assert.are_not.equal(inc, again.inc)
    end)

    -- ---- who else is at it -----------------------------------------------------------

    it("is finished by another one, wherever the first one ended", function()
        local client, servers = begin(3, 1)
        local left = {}
        for step = 1, 40 do
            local changer, n, ended = new_client(servers), 0, nil
            local function progress(what)
                n, ended = n + 1, what
                if n == step then
                    error "the end"
                end
            end
            local ran = pcall(changer.members, changer,
                { add = cluster[4].uri, progress = progress })
            changer:close()
            local found = assert(client:members { finish = true })
            assert.is_nil(found.old)
            left[#found.list] = (left[#found.list] or "") .. ended .. "\n"
            if #found.list == 4 then
                break
            end
            assert.is_false(ran)
            assert.is_true((client:getLock("x"):tryLock(5)))
            client:getLock("x"):unlock()
        end
        assert.matches("^from {", left[3])              -- nothing was begun
        assert.matches("under the old list", left[4])
        assert.is_true((client:getLock("x"):tryLock(5)))
    end)

    it("is finished when the server votes that somebody else has added", function()
        local client, servers = begin(3, 1)
        local changer, flushed = new_client(servers), false
        assert.is_false(pcall(changer.members, changer, { add = cluster[4].uri,
            progress = function(what)
                assert(not what:find "under the old list")
            end }))
        changer:close()
        local found = assert(client:members { finish = true, progress = function(what, seconds, of)
            if what:find "under the old list" and seconds > of / 2 and not flushed then
                flushed = true
                cluster[4]:call "FLUSHALL"
            end
        end })
        assert.is_true(flushed)
        assert.is_true(found.list[4].votes)
        cluster[4]:call "FLUSHALL"               -- the new list is in force, and it does not vote
        assert.is_true(assert(client:members { finish = true }).list[4].votes)
    end)

    it("is changed by one of two who want different things, and then by the other", function()
        local client, servers = begin(3, 2)
        local other, began = new_client(servers), nil
        assert(client:members { add = cluster[4].uri, progress = function(what)
            if what:find "under the old list" and not began then
                began = true
                support.fails("held", other:getFencedLock("redlock.members"):tryLock(0))
            end
        end })
        assert.is_true(began)
        assert.same({ 1, 2, 3, 4, 5 }, who(assert(other:members { add = cluster[5].uri }).list))
    end)

    -- Without ballots both joint views would be there, each at some servers.
    it("is changed by the larger ballot, when both are at it", function()
        local client, servers = begin(3, 2)
        local other, between = new_client(servers), nil
        local found = assert(client:members { add = cluster[4].uri, progress = function(what)
            if what:find "^from " and not between then
                between = true
                assert.is_true(other:getFencedLock("redlock.members"):forceUnlock())
                assert(other:members { add = cluster[5].uri })
            end
        end })
        assert.is_true(between)
        assert.same({ 1, 2, 3, 4, 5 }, who(found.list))
        for i = 2, 5 do
            assert.equal(read_marker(cluster[1]).view, read_marker(cluster[i]).view)
        end
    end)

    describe("is taken by a server", function()
        local record = require "redlock.core.record"
        local views = require "redlock.policy.views"
        local B = "9000000000000"         -- past all tokens
        local client, seen, view

        before_each(function()
            client = begin(3, 0)
            seen = assert(views.look(client, B .. "7"))
            view = record.joint(views.newest(seen),
                { remove = cluster[1].uri, add = "redis://x:1" }, 7)
        end)

        local function accepts(ballot)
            local done = assert(views.accept(client, { seen[cluster[2].uri] }, view, "a", ballot))
            return done[cluster[2].uri] == true and read_marker(cluster[2]).epoch == 5
        end

        it("that has promised the ballot, and gives the record with it", function()
            assert.equal(tonumber(B .. "7"), seen[cluster[2].uri].ballot)
            assert.is_true(accepts(B .. "7"))
            assert.equal(record.write(view), cluster[2]:call("GET", RECORD))
            assert.is_true(accepts(B .. "7"))                       -- once more
        end)

        it("not when it has promised a larger one", function()
            local again = assert(views.look(client, B .. "6"))
            assert.equal(tonumber(B .. "7"), again[cluster[2].uri].ballot)
            assert(views.look(client, B .. "8"))
            assert.is_false(accepts(B .. "7"))
            assert.equal(4, read_marker(cluster[2]).epoch)
        end)

        it("not when it has forgotten, or may have forgotten, what it promised", function()
            cluster[2]:call("DEL", "redlock:{server}:ballot")
            assert.is_false(accepts(B .. "7"))
            assert(views.look(client, B .. "9"))
            local marker = cluster[2]:call("GET", MARKER)
            cluster[2]:call("SET", MARKER, ("0"):rep(16) .. marker:sub(17))
            assert.is_false(accepts(B .. "9"))
            cluster[2]:restart()
            cluster[2]:call("MSET", MARKER, marker, "redlock:{server}:ballot",
                marker:sub(1, 8) .. B .. "9")
            assert.is_false(accepts(B .. "9"))                      -- the data of another life
        end)
    end)

    -- ---- what is told ----------------------------------------------------------------

    it("stays as it is in a dry run, which says what would be done", function()
        local client = begin(3, 1)
        local found = assert(client:members { remove = cluster[1].uri, add = cluster[4].uri,
            dry_run = true })
        assert.equal(4, found.epoch)
        assert.same({ 1, 2, 3 }, who(found.list))
        assert.is_truthy(found.plan.from:find(cluster[1].uri, 1, true))
        assert.is_truthy(found.plan.to:find(cluster[4].uri, 1, true))
        assert.is_nil(found.plan.waits_for)
        assert.near(MAX_LEASE * 1.01 + 1, found.wait, 1e-6)
        assert.equal("", cluster[4]:call("GET", MARKER) or "")
        cluster[2]:kill()
        found = assert(client:members { add = cluster[4].uri, dry_run = true })
        assert.is_truthy(found.plan.waits_for:find(cluster[2].uri, 1, true))
        assert.is_nil(assert(client:members { finish = true, dry_run = true }).plan)
    end)

    it("is learnt by clients from the servers", function()
        local client, servers = begin(3, 1)
        local old = new_client(servers)
        assert(client:members { remove = cluster[1].uri, add = cluster[4].uri })
        cluster[1]:kill()
        assert.is_true((old:getLock("x"):tryLock(5)))
        local report = assert(old:check())
        assert.equal(3, #report)
        assert.matches("list_stale", report.findings[1].kind)
        assert.equal(3, #old:stats().nodes)
    end)

    it("is learnt from a server that has left, which then has no say, while the others are in "
        .. "quarantine", function()
        local client = begin(3, 1)
        assert(client:members { remove = cluster[1].uri, add = cluster[4].uri })
        client:close()
        cluster[2]:restart()
        cluster[3]:restart()
        local late = new_client { cluster[1], cluster[2], cluster[3] }
        local err = support.fails("no_quorum", late:getLock("x"):tryLock(0))
        assert.is_nil(tostring(err):find("config", 1, true))
        local report = assert(late:check())
        for _, row in ipairs(report) do
            assert.are_not.equal(cluster[1].uri, row.node)
        end
        assert.equal("list_stale", report.findings[1].kind)
        assert.is_true((late:getLock("x"):tryLock(30)))
        assert.same({ 2, 3, 4 }, who(assert(late:members()).list))
    end)
end)
