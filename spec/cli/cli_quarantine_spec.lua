-- The command while servers are in quarantine, and what ends it.
local cli = require "spec.support.command"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"
local sys = require "spec.support.sys"

local HELD, FAILED = 124, 125
-- A lease that is renewed in time on a busy machine, too; and how long a quarantine then lasts.
local MAX_LEASE = 3
local GUARD = MAX_LEASE * 1.01 + 1 - 0.001

describe("redlock, while servers may have forgotten locks,", function()
    local cluster, home

    before_each(function()
        cluster = support.cluster(3, { new = true }):admit(MAX_LEASE)
        home = support.tmpdir()
        assert.is_true(support.sh("mkdir " .. home .. "/.config"))
        sys.write_file(home .. "/.config/redlock.conf",
            ("max_lease = %d\nlease = %d\ntimeout = 3\nconnect_timeout = 5\n"):format(MAX_LEASE,
                MAX_LEASE))
    end)

    local start, redlock = cli.on(function() return cluster, home end)

    local function restart(...)
        for _, i in ipairs { ... } do
            cluster[i]:restart()
        end
    end

    describe("run --no-wait", function()
        it("stays until a majority votes, and runs", function()
            restart(1, 2)
            local began = support.now()
            local status, text = redlock("run", "x", "--no-wait", "--", "echo", "ran")
            assert.equal(0, status)
            assert.matches("ran\n$", text)
            assert.is_true(support.now() - began >= GUARD)
        end)

        -- Between the restarts nobody was there for longer than such runs. The first server's
        -- quarantine ends first, but it learns its fencing tokens only when the second one's has.
        it("works again within a quarantine when servers were restarted months apart", function()
            restart(1)
            for _, seconds in ipairs { "0", "0", "1.5" } do
                assert.equal(0, (redlock("run", "x", "--no-wait", "--", "sleep", seconds)))
            end
            assert.equal(1, (redlock "check"))
            restart(2)
            local status, text = redlock("run", "x", "--no-wait", "--", "true")
            assert.equal(0, status, text)
        end)

        it("does not stay for a holder", function()
            local client = support.warm_client(cluster,
                { max_lease = MAX_LEASE, lease = MAX_LEASE })
            local l = client:getLock "x"
            assert.is_true(l:lock())
            restart(1)
            support.eventually(function() return cluster[1]:call("EXISTS", "x") == 1 end, 20)
            local status, text = redlock("run", "x", "--no-wait", "--", "echo", "ran")
            assert.equal(HELD, status, text)
        end)

        it("ends at a signal", function()
            restart(1, 2)
            sys.write_file(home .. "/.config/redlock.conf", "max_lease = 60\n")
            cluster:admit()
            restart(1, 2)
            local p = start({}, "run", "x", "--no-wait", "--", "echo", "ran")
            assert.matches("waiting until enough servers vote, [56]%d s", p:read_line(20))
            p:kill "TERM"
            assert.same({ 128 + 15, "" }, { cli.ends(p) })
        end)
    end)

    it("run --wait gives up at that time", function()
        sys.write_file(home .. "/.config/redlock.conf", "max_lease = 60\n")
        cluster:admit()
        restart(1, 2)
        local began = support.now()
        local status, text = redlock("run", "x", "--wait", "1", "--", "echo", "ran")
        assert.equal(FAILED, status, text)
        assert.matches("guarded", text)
        assert.is_true(support.now() - began < 30)
    end)

    -- Nobody could begin the quarantine, or vote behind it.
    for _, command in ipairs { "EVAL", "EVALSHA", "TIME" } do
        for how, args in pairs {
            ["is renamed"] = { "--rename-command", command, "gone" },
            ["is forbidden"] = {},
        } do
            it("ends at once where " .. command .. " " .. how, function()
                cluster = support.cluster(3, { new = true, args = args })
                if not args[1] then
                    local rule = "-" .. command
                    cluster:each(function(s) s:call("ACL", "SETUSER", "default", rule) end)
                end
                local status, text = redlock("run", "x", "--no-wait", "--plain", "--", "true")
                assert.equal(FAILED, status, text)
                assert.matches(command:lower() .. "%f[%A]", text:lower())
                assert.not_matches("waiting", text)
                sys.write_file(home .. "/.config/redlock.conf", ("max_lease = %d\nlease = %d\n"
                    .. "patience = 1\n"):format(MAX_LEASE, MAX_LEASE))
                status, text = redlock("run", "x", "--plain", "--", "true")
                assert.equal(FAILED, status, text)
                if command ~= "EVALSHA" then
                    status, text = redlock "init"
                    assert.equal(FAILED, status, text)
                    assert.matches("init: .*" .. command, text)
                    assert.equal(2, (redlock("check", "--wait")))
                    assert.not_matches("marker?", text, 1, true)
                    assert.not_matches("redlock init", text)
                end
            end)
        end
    end

    it("waits where this user may not begin the quarantine, and somebody else does", function()
        cluster = support.cluster(3, { new = true })
        cluster:each(function(s)
            s:call("ACL", "SETUSER", "reader", "on", "nopass", "+@all", "-eval", "~*", "&*")
            s.uri = s.uri:gsub("//", "//reader:any@")
        end)
        local other = start({}, "check", "--wait", "--nodes",
            (table.concat(cluster:uris(), " "):gsub("reader:any@", "")))
        assert.matches("waiting for", other:read_line(20))
        local status, text = redlock("run", "x", "--no-wait", "--plain", "--", "echo", "ran")
        assert.equal(0, status, text)
        assert.equal(0, (cli.ends(other)))
    end)

    describe("check --wait", function()
        it("stays until all servers vote, and know the fencing tokens, taught by others", function()
            local function floors()
                local _, text = redlock("check", "--json")
                local list = {}
                for word in text:gmatch '"floors": "(%a+)"' do
                    list[#list + 1] = word
                end
                return list
            end
            cluster:each(function(s) s:call("HDEL", "redlock:{server}:floor", "base", "most") end)
            assert.same({ "none", "none", "none" }, floors())
            local status, text = redlock("check", "--wait")
            assert.equal(0, status, text)
            assert.same({ "all", "all", "all" }, floors())
            restart(2)
            assert.same({ "all", "none", "all" }, floors())
            status, text = redlock "check"
            assert.equal(1, status)
            -- "It lost its memory", if another client has known it.
            assert.matches(": it [^\n]* memory[^\n]*; it votes in %d s of 5, counted while a "
                .. "client is connected: redlock check %-%-wait\n", text)
            status, text = redlock("check", "--wait")
            assert.equal(0, status, text)
            assert.matches("^redlock: waiting for redis://127.0.0.1:%d+ %([a-z]+_?[a-z]*%)\n", text)
            assert.same({ "all", "all", "all" }, floors())
            assert.equal(0, (redlock "check"))
        end)

        it("leaves to the next one what they have seen of a quarantine", function()
            sys.write_file(home .. "/.config/redlock.conf", "max_lease = 60\n")
            cluster:admit()
            restart(1)
            local p = start({}, "check", "--wait")
            assert.matches("waiting for", p:read_line(20))
            assert.is_nil(p:wait(3))
            p:kill "TERM"
            assert.equal(128 + 15, (cli.ends(p)))
            local _, text = redlock "check"
            local left = tonumber(text:match "it votes in (%d+) s of 62, ")
            assert.is_true(left <= 60, text)
        end)

        -- Of a cluster that votes, and of one that never has.
        it("waits for servers that are down", function()
            local all, waiting = { cluster, support.cluster(3, { new = true }) }, {}
            for i, word in ipairs { "--wait", "-w" } do
                cluster = all[i]
                cluster[4 - i]:kill()
                waiting[i] = start({}, "check", word)
                assert.matches(cluster[4 - i].port .. " %(refused%)", waiting[i]:read_line(20))
            end
            for i = 1, 2 do
                all[i][4 - i]:start()
            end
            for _, p in ipairs(waiting) do
                local status, text = cli.ends(p)
                assert.equal(0, status, text)
            end
        end)

        it("waits a while for clients of another list, which may have ended", function()
            local other = support.client({ cluster[1], cluster[2] }, { max_lease = MAX_LEASE,
                lease = MAX_LEASE })
            assert.is_true(other:connect(20))
            local p = start({}, "check", "--wait")
            assert.matches("waiting for %S+:" .. cluster[1].port .. " %(clients of another list%), "
                .. "%S+:" .. cluster[2].port .. " %(clients of another list%)$", p:read_line(20))
            other:close()
            local status, text = cli.ends(p)
            assert.equal(0, status, text)
        end)

        it("ends where no time helps, and at a signal", function()
            cluster[1]:admit(2 * MAX_LEASE)
            local status, text = redlock("check", "--wait")
            assert.equal(1, status)
            assert.matches("another client set max_lease to .* and this client has 3 s", text)
            assert.equal(FAILED, (redlock "init"))
            cluster[1]:kill()
            local p = start({}, "check", "--wait")
            assert.matches("waiting for", p:read_line(20))
            p:kill "INT"
            assert.equal(128 + 2, (cli.ends(p)))
        end)
    end)

    -- What examples/operations says of upgrades: one server after the other, and somebody stays.
    it("lets servers be restarted one after the other, and locks be taken all the time", function()
        local client = support.warm_client(cluster, { max_lease = MAX_LEASE, lease = MAX_LEASE,
            timeout = 5 })
        local function takes()
            local l = client:getFencedLock "x"
            local ok, token = l:tryLock(0)
            assert.is_true(ok, tostring(token))
            assert.is_true(l:unlock())
            return token
        end
        local last = takes()
        for i = 1, 3 do
            restart(i)
            quarantine.await_up(client, i)
            local token = takes()
            assert.is_true(token > last)
            local status, text = redlock("run", "upgrade", "--", "sleep",
                tostring(GUARD + 0.5))
            assert.equal(0, status, text)
            status, text = redlock "check"
            assert.equal(0, status, text)
            last = takes()
            assert.is_true(last > token)
        end
    end)
end)
