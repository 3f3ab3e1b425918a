-- What became of locks: the event `released`, the option `history`, and redlock history.
local cli = require "spec.support.command"
local json = require "redlock.core.json"
local support = require "spec.support"
local sys = require "spec.support.sys"

local LOST, FAILED = 123, 125
local DATE = "%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ"

describe("the history of locks", function()
    local cluster, home, path

    setup(function() cluster = support.cluster(3) end)
    before_each(function()
        cluster:flush()
        home = support.tmpdir()
        path = home .. "/locks"
    end)
    teardown(support.cleanup)

    local function redlock(...)
        return cli.ends(cli.start(cluster, home, {}, ...))
    end

    it("is told by events", function()
        local seen = {}
        local client = support.warm_client(cluster, { on_event = function(e)
            if e.type == "released" or e.type == "lost" then seen[#seen + 1] = e end
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
        assert.is_true(seen[1].held >= 0.049 and seen[1].held < 20)
        assert.is_nil(seen[1].code)
        assert(client:getLock("y"):tryLock(5, 50))
        cluster:each(function(s) s:call("SET", "y", "theirs", "PX", 5000) end)
        support.fails("held", client:getLock("y"):unlock())
        assert.same({ 2, "lost", "taken" }, { #seen, seen[2].type, seen[2].reason })
        assert.is_true(seen[2].held >= 0 and seen[2].held < 20)
        assert(client:getLock("z"):tryLock(5, 50))
        client:close()
        assert.same({ 3, "lost", "closed" }, { #seen, seen[3].type, seen[3].reason })
    end)

    it("is written by programs and the command, and printed", function()
        local heard = 0
        local client = support.warm_client(cluster, { label = "web-1", history = path,
            on_event = function() heard = heard + 1 end })
        local l = client:getLock "deploy\nweb"
        assert(l:tryLock(5) and l:unlock())
        assert.is_true(heard >= 2)
        assert(client:getLock("x"):tryLock(5, 50))
        cluster:flush()
        support.fails("lost", client:getLock("x"):extend())
        assert.same({ 0, "" }, { redlock("run", "x", "--label", "mine", "--history", path, "--",
            "true") })
        os.rename(path, path .. ".1")                    -- as logs are rotated
        assert(l:tryLock(5) and l:unlock())
        client:close()
        assert.matches('^{"at": %d+%.?%d*, "name": "deploy\\nweb", "type": "acquired", '
            .. '"waited": [%d.e-]+, "who": "web%-1"}\n', assert(sys.read_file(path)))
        local status, text = redlock("history", path .. ".1")
        assert.equal(0, status)
        assert.matches("^deploy\\x0aweb\n  " .. DATE .. "  taken     web%-1 *\n  " .. DATE
            .. "  released  web%-1  held for 0%.%d s\nx\n  " .. DATE .. "  taken     web%-1 *\n  "
            .. DATE .. "  lost      web%-1  held for %d+%.%d s: forgotten\n  " .. DATE
            .. "  taken     mine *\n  " .. DATE .. "  released  mine +held for %d+%.%d s\n$", text)
        status, text = redlock("history", path, "--json")
        assert.equal(0, status)
        local one = json.decode(text).names[1]
        assert.same({ "deploy\nweb", "taken", "released", "web-1" }, { one.name,
            one.events[1].what, one.events[2].what, one.events[2].who })
    end)

    it("has whatever a file has, and nothing else", function()
        sys.write_file(path, table.concat({
            '{"at": 1700000000, "name": "a\\u001b[2J\\u00fc", "type": "lost", "who": "\\u001b[1m", '
                .. '"reason": "taken", "held": 2, "holder": {"label": "web-2"}}',
            '{"at": 1e300, "name": "never", "type": "lost"}',
            '{"at": 1, "name": 5, "type": "lost"}',
            '{"at": 1, "type": "node_up"}', "no event", '{"at": 1, ', '["a", {"b": "\\\\"}]', "{}",
            ("["):rep(100000), '{"at": 1700000001, "name": "b", "type": "released", '
                .. '"code": "unknown", "who": {}}' }, "\n") .. "\n")
        local status, text = redlock("history", path)
        assert.equal(0, status)
        assert.equal("redlock: 5 lines of it are no events\n"
            .. "a\\x1b[2J\\xc3\\xbc\n"
            .. "  2023-11-14T22:13:20Z  lost  ?[1m  held for 2.0 s: taken by web-2\n"
            .. "b\n  2023-11-14T22:13:21Z  released  ?  : unknown\n", text)
        status, text = redlock("history", home .. "/none")
        assert.equal(FAILED, status)
        assert.matches("cannot be read: .*No such file", text)
        status, text = redlock("history", home)
        assert.equal(FAILED, status)
        assert.matches("cannot be read", text)
        status, text = redlock "history"
        assert.equal(FAILED, status)
        assert.matches("which file", text)
        sys.write_file(home .. "/conf", "history = " .. path .. "\n")
        status, text = redlock("history", "--config", home .. "/conf")
        assert.equal(0, status)
        assert.matches("web%-2", text)
    end)

    it("is whole when many processes write to one file", function()
        local children = {}
        for i = 1, 4 do
            children[i] = support.lua(([[
                local redlock = require "redlock"
                local client = redlock.new { nodes = %q, restart_guard = "ignore", history = %q }
                local lock = client:getLock(("%d"):rep(60000))
                for _ = 1, 100 do
                    assert(lock:tryLock(1) and lock:unlock())
                end
                print "done"
            ]]):format(cluster[1].uri, path, i), { stderr = "stdout" })
        end
        for i = 1, 4 do
            assert.equal("done\n", children[i]:read_all(60))
        end
        local list, strange = require("redlock.policy.history").read(io.lines(path))
        assert.same({ 4, 0 }, { #list, strange })
        for _, one in ipairs(list) do
            assert.equal(200, #one.events)
        end
    end)

    it("costs no lock when it cannot be written, and says so once", function()
        local p = support.lua(([[
            local redlock = require "redlock"
            local client = redlock.new { nodes = %q, restart_guard = "ignore", history = %q }
            for _ = 1, 3 do
                assert(client:getLock("x"):tryLock(1))
                assert(client:getLock("x"):unlock())
            end
            print "done"
        ]]):format(cluster[1].uri, home .. "/none/file"), { stderr = "stdout" })
        assert.matches("^redlock: no history is written: [^\n]*none/file: No such file[^\n]*\n"
            .. "done\n$", p:read_all(20))
    end)

    it("of a command that lost its lock says so", function()
        local p = cli.start(cluster, home, {}, "run", "x", "--lease", "1", "--history", path, "--",
            "sleep", "30")
        support.eventually(function() return cluster:keys() >= 2 end, 20)
        cluster:flush()
        assert.equal(LOST, (cli.ends(p)))
        local _, text = redlock("history", path)
        assert.matches("lost .* held for %d%.%d s: forgotten\n", text)
    end)
end)
