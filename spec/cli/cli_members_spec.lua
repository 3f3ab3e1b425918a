-- The verb members: what it says, and what it refuses.
local cli = require "spec.support.command"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"
local sys = require "spec.support.sys"

local FAILED = 125

describe("redlock members", function()
    local cluster, home

    before_each(function()
        cluster, home = support.cluster(4, { new = true }), support.tmpdir()
        assert.is_true(support.sh("mkdir " .. home .. "/.config"))
        sys.write_file(home .. "/.config/redlock.conf",
            ("max_lease = %g\nlease = 0.4\ntimeout = 2\nconnect_timeout = 5\n")
            :format(quarantine.MAX_LEASE))
    end)
    after_each(support.cleanup)

    local function redlock(...)
        local nodes = { uris = function()
            return { cluster[1].uri, cluster[2].uri, cluster[3].uri }
        end }
        return cli.ends(cli.start(nodes, home, {}, ...), 300)
    end

    local function name(i)
        return cluster[i].uri:gsub("%p", "%%%0")
    end

    it("shows the list, and changes it", function()
        local status, said = redlock "members"
        assert.equal(FAILED, status)
        assert.matches("no server says which list it is in; a new cluster%? redlock init", said)
        assert.equal(0, (redlock "init"))
        status, said = redlock("members", "show")
        assert.equal(0, status, said)
        assert.matches("^list 2 of cluster %x+; before it can change: redlock members online on\n",
            said)
        for i = 1, 3 do
            assert.matches(name(i) .. "  votes\n", said)
        end
        status, said = redlock("members", "replace", "127.0.0.1:" .. cluster[1].port .. "="
            .. cluster[4].uri)
        assert.equal(FAILED, status)
        assert.matches("redlock members online on", said)
        status, said = redlock("members", "online", "on")
        assert.equal(0, status, said)
        assert.matches("waits for what was begun under the old list %(up to 2%)\n", said)
        local replace = "127.0.0.1:" .. cluster[1].port .. "=" .. cluster[4].uri
        status, said = redlock("members", "replace", replace, "--dry-run")
        assert.equal(0, status, said)
        assert.matches("would take the list\n  from {.-" .. name(1) .. ".-}\n  to {.-" .. name(4)
            .. ".-}\nin 2 s\n$", said)
        assert.is_nil(cluster[4]:call("GET", "redlock:{server}:marker"))
        status, said = redlock("members", "replace", replace)
        assert.equal(0, status, said)
        assert.matches("\nlist 6 of cluster %x+\n", said)
        assert.matches(name(4) .. "  votes\n", said)
        assert.is_nil(said:find(name(1) .. "  ", 1))
        cluster[1]:kill()
        cluster[2]:kill()
        status, said = redlock("members", "--json")
        assert.equal(0, status)
        assert.matches('"epoch": 6, "list"', said)
        assert.matches('"online": true', said)
        local votes = {}
        for member in said:match('"list": (%b[])'):gmatch "%b{}" do
            votes[member:match '"node": "(.-)"'] = member:match '"votes": (%a+)'
        end
        assert.same({ [cluster[2].uri] = "false", [cluster[3].uri] = "true",
            [cluster[4].uri] = "true" }, votes)
        said = select(2, redlock "members")
        assert.matches(name(2) .. "  does not answer\n", said)
        assert.equal(0, (redlock("members", "finish")))
    end)

    it("says what is wrong with what it is asked for", function()
        for _, words in ipairs { { "shows" }, { "online" }, { "online", "off" }, { "add" },
            { "add", "a", "b" }, { "replace", "a" }, { "replace", "a=" }, { "finish", "x" },
            { "remove" }, { "show", "x" } } do
            local status, said = redlock("members", unpack(words))
            assert.equal(FAILED, status)
            assert.matches("^redlock: members: show, online on, add URI, remove SERVER, "
                .. "replace SERVER=URI, or finish\nTry: redlock members %-%-help\n$", said)
        end
        local status, said = redlock("members", "add", "http://10.0.0.1")
        assert.equal(FAILED, status)
        assert.matches("^redlock: bad add: ", said)
        status, said = redlock("members", "replace", "10.0.0.1=redis://10.0.0.1")
        assert.equal(FAILED, status)
        assert.matches("cannot take its own place", said)
    end)
end)
