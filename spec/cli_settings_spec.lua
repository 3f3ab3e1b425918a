-- Settings of the command that were taken for something else.
local cli = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"

describe("redlock", function()
    local cluster, home

    setup(function()
        cluster = support.cluster(3)
        home = support.tmpdir()
    end)
    teardown(support.cleanup)

    local function redlock(...)
        return cli.ends(cli.start(cluster, home, {}, ...))
    end

    it("reads every value of restart_guard from its file", function()
        for _, value in ipairs { "true", "false", "require", "auto" } do
            local path = home .. "/" .. value .. ".conf"
            sys.write_file(path, "restart_guard = " .. value .. "\n")
            local status, text = redlock("status", "x", "--config", path)
            assert.equal(1, status, text)        -- free
        end
    end)

    it("run hands on the token of its own lock alone", function()
        local status, text = redlock("run", "outer", "--", "sh", "-c",
            'test "$REDLOCK_TOKEN" && exec "$0" run inner --plain -- sh -c '
            .. "'echo $REDLOCK_NAME ${REDLOCK_TOKEN-none}'", cli.REDLOCK)
        assert.equal("inner none\n", text)
        assert.equal(0, status)
    end)

    it("takes no names of the library's own keys", function()
        for _, words in ipairs { { "status" }, { "unlock", "--force" } } do
            local status, text = redlock(words[1], "redlock:{server}:marker", words[2])
            assert.equal(125, status)
            assert.matches("^redlock: bad name: keys that begin with 'redlock:{'", text)
        end
    end)

    it("takes no times that are none", function()
        for _, seconds in ipairs { "nan", "-1", "soon" } do
            local status, text = redlock("run", "x", "--kill-after", seconds, "--", "true")
            assert.equal(125, status)
            assert.matches("--kill-after needs a number of seconds", text, 1, true)
        end
    end)

    it("takes what follows -- as names, where no command is run", function()
        local status, text = redlock("status", "--", "-x")
        assert.equal(1, status)
        assert.matches("^%-x is free", text)
        status, text = redlock("status", "x", "--", "y")
        assert.equal(125, status)
        assert.matches("only one name is wanted, not x y", text, 1, true)
        status, text = redlock("check", "--", "y")
        assert.equal(125, status)
        assert.matches("check takes no names", text, 1, true)
    end)

    it("helps with commands that there are", function()
        local status, text = redlock("help", "status")
        assert.equal(0, status)
        assert.matches("redlock status", text, 1, true)
        status, text = redlock("help", "zzz")
        assert.equal(125, status)
        assert.matches("there is no command 'zzz'", text, 1, true)
    end)

    it("says that a folder is no file of settings", function()
        local status, text = redlock("status", "x", "--config", home)
        assert.equal(125, status)
        assert.equal("redlock: the configuration cannot be read: " .. home
            .. ": Is a directory\n", text)
    end)

    it("fails where its answer cannot be written", function()
        local status, text = redlock("run", "outer", "--", "sh", "-c",
            '"$0" status x > /dev/full', cli.REDLOCK)
        assert.equal(125, status)
        assert.matches("the answer cannot be written: .*No space left", text)
    end)
end)
