-- redlock ask.
local cli = require "spec.support.command"
local support = require "spec.support"

local FREE, UNHEARD, FAILED = 1, 2, 125

describe("redlock ask", function()
    local cluster, home, client

    setup(function()
        cluster = support.cluster(3)
        home = support.tmpdir()
    end)
    before_each(function()
        cluster:flush()
        client = support.warm_client(cluster, { label = "web-1" })
    end)
    after_each(function() client:close() end)
    teardown(support.cleanup)

    local function ask(...)
        return cli.ends(cli.start(cluster, home, {}, "ask", ...))
    end

    it("tells the holder, who lets go or not", function()
        local l, told = client:getLock "x", nil
        assert.same({ FREE, "x is free\n" }, { ask "x" })
        assert(l:tryLock(0, 50))
        assert.same({ UNHEARD, "x: nobody listens; held by web-1\n" }, { ask("x", "--why", "now") })
        assert(l:onAsked(function(_, why, who) told = { why, who } end))
        support.eventually(function() l:isValid() return told end, 20)
        assert.equal("now", told[1])
        assert.matches("^%S+ %d+ redlock$", told[2])
        assert.same({ 0, "x: asked web-1\n" }, { ask("x", "--why", "later\n") })
        assert.same({ UNHEARD, "x: an earlier request is still to be read by web-1\n" },
            { ask "x" })
        support.eventually(function() l:isValid() return told[1] == "later?" end, 20)
        assert.is_true(l:isValid())
    end)

    it("--json is JSON", function()
        local status, text = ask("x", "--json")
        assert.same({ FREE, '{"held": false, "name": "x"}\n' }, { status, text })
        assert(client:getLock("x"):tryLock(0, 50))
        status, text = ask("--json", "x")
        assert.equal(UNHEARD, status)
        assert.matches('^{"before": false, "heard": false, "held": true, "label": "web%-1", '
            .. '"name": "x", "remaining": %d+%.?%d*, "since": %d+%.?%d*}\n$', text)
    end)

    it("says what it cannot do", function()
        local status, text = ask()
        assert.equal(FAILED, status)
        assert.matches("ask", text)
        status, text = ask("x", "--why", ("w"):rep(161))
        assert.equal(FAILED, status)
        assert.matches("160 bytes", text)
        status, text = ask("x", "--nodes", "redis://127.0.0.1:1")
        assert.equal(FAILED, status)
        assert.matches("refused", text)
    end)
end)
