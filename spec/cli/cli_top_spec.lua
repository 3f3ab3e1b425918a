-- redlock top.
local cli = require "spec.support.command"
local support = require "spec.support"

local FAILED = 125
local FILL = [[
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    redis.call('set', 'name:' .. i, string.format('%040x', i) .. ' 19ab0000000 web-1', 'px', 600000)
end]]

describe("redlock top", function()
    local cluster, home, client

    setup(function()
        cluster = support.cluster(3)
        home = support.tmpdir()
    end)
    before_each(function()
        cluster:each(function(s) if s.frozen then s:thaw() end end)
        cluster:flush()
        client = support.warm_client(cluster, { label = "web-1" })
    end)
    after_each(function() client:close() end)

    local function start(...)
        return cli.start(cluster, home, {}, "top", ...)
    end

    it("says in lines what is held, who waits, and how the servers are", function()
        assert(client:getLock("x"):tryLock(0, 60))
        local p = start("--timeout", "3", "--every", "0.1")
        assert.matches("^20%d%d.-Z  held 1  waiting 0  acquired %-  released %-  3 of 3 servers "
            .. "vote  redis://127%.0%.0%.1:%d+ %d+ ms [+-]0%.%d+ s admitted; ", p:read_line(20))
        assert(client:getLock("y"):tryLock(0, 60))
        support.eventually(function()
            return tonumber(p:read_line(20):match "acquired ([%d.]+)/s") > 0
        end)
        p:kill "TERM"
        assert.equal(128 + 15, p:wait(10))
    end)

    it("tells programs the same, and goes on without a majority", function()
        assert(client:getLock("x"):tryLock(0, 60))
        local p = start("--json", "--timeout", "3", "--every", "0.1")
        assert.matches('^{"held": 1, .*"servers": %[{.*"guard": "admitted".*"voting": 3, '
            .. '"waiting": 0}$', p:read_line(20))
        cluster[1]:freeze()
        cluster[2]:freeze()
        support.eventually(function()
            return p:read_line(20):find('"error": "no_quorum"', 1, true)
        end, 60)
        cluster[1]:thaw()
        cluster[2]:thaw()
        support.eventually(function()
            return p:read_line(20):find('"held": 1', 1, true)
        end, 60)
        p:kill "TERM"
        assert.equal(128 + 15, p:wait(20))
    end)

    it("asks a server less than 100 times a second, also of 10,000 names", function()
        cluster:each(function(s)
            s:call("EVAL", FILL, 0, 1, 5000)
            s:call("EVAL", FILL, 0, 5001, 10000)
        end)
        local others = {}
        cluster:each(function(s, k)      -- 100 who wait
            others[k] = support.connect(s.port)
            for i = 1, 100 do
                others[k]:call("SUBSCRIBE", ("redlock:{name:%d}:free"):format(i))
            end
        end)
        local function calls(s)
            local n = 0
            local stats = s:call("INFO", "commandstats")
            for _, name in ipairs { "evalsha", "eval", "info", "time", "get", "script|load" } do
                n = n + (tonumber(stats:match("cmdstat_" .. name:gsub("|", "%%|")
                    .. ":calls=(%d+)")) or 0)
            end
            -- What scripts do is no call of its own.
            return n - (tonumber(stats:match "cmdstat_get:calls=(%d+)") or 0)
                - (tonumber(stats:match "cmdstat_time:calls=(%d+)") or 0)
        end
        local before, t0 = calls(cluster[1]), support.now()
        local p = start("--count", "1")
        local text = p:read_all(120)
        local seconds = support.now() - t0
        assert.equal(0, p:wait(10))
        assert.matches("held 10000  waiting 100  ", text)
        local n = calls(cluster[1]) - before
        assert.is_true(n > 100 and n / seconds < 100, n .. " calls in " .. seconds .. " s")
        assert.is_true(n < 500 and seconds > 3.9, n .. " calls in " .. seconds .. " s")
    end)

    -- On a terminal.
    local function watch(uris, columns)
        return support.spawn { "script", "-qfec", "stty rows 24 cols " .. columns .. "; "
            .. cli.REDLOCK .. " top --every 0.1", "/dev/null", stdin = "pipe", stdout = "pipe",
            stderr = "stdout", env = { HOME = home, REDLOCK_CLUSTER = support.CLUSTER,
                REDLOCK_NODES = table.concat(uris, " "), TERM = "xterm" } }
    end

    -- Reads until each of these is found in the last lines, from "redlock top" on.
    local function await(p, ...)
        local screen, wanted = "", { ... }
        support.eventually(function()
            local line = p:read_line(20) or ""
            screen = (line:find("redlock top  ", 1, true) and "" or screen .. "\n") .. line
            for _, pattern in ipairs(wanted) do
                if not screen:find(pattern) then
                    return false
                end
            end
            return true
        end, 60)
    end

    local function quit(p)
        p:write "q"
        local text = p:read_all(20)
        assert.equal(0, p:wait(10))
        return text
    end

    local function has_script()
        return support.sh "command -v script > /dev/null"
    end

    it("has above what most wait for, then what is held longest", function()
        if not has_script() then
            return pending "no script here"
        end
        for _, name in ipairs { "first", "second", "third" } do
            assert(client:getLock(name):tryLock(0, 60))
            support.sleep(0.002)             -- they begin at different milliseconds
        end
        local waiters = {}
        cluster:each(function(s, k)
            waiters[k] = support.connect(s.port)
            waiters[k]:call("SUBSCRIBE", "redlock:{third}:free")
        end)
        local p = watch(cluster:uris(), 70)
        await(p, "third.*first.*second")
        for _, waiter in ipairs(waiters) do
            waiter:close()
        end
        await(p, "first.*second.*third")
        cluster[1]:freeze()
        cluster[2]:freeze()
        await(p, "no majority of the servers lists its names")
        quit(p)
    end)

    it("says why a server has no vote, and for how long", function()
        if not has_script() then
            return pending "no script here"
        end
        local new = support.cluster(3, { new = true })
        local p = watch(new:uris(), 100)
        await(p, "0 of 3 servers vote", "new, no votes for %d+ s")
        quit(p)
    end)

    it("draws a screen in the place of the one before, until q is pressed", function()
        if not has_script() then
            return pending "no script here"
        end
        assert(client:getLock("deploy\27[2J"):tryLock(0, 60))
        assert(client:getLock(("long"):rep(15) .. "er"):tryLock(0, 60))
        local p = watch(cluster:uris(), 70)
        local text = ""
        support.eventually(function()
            text = text .. (p:read_line(20) or "")
            return select(2, text:gsub("redlock top  ", "")) >= 3
        end, 30)
        text = text .. quit(p)
        assert.equal(1, select(2, text:gsub("\27%[%?1049h\27%[%?25l", "")))
        assert.equal(1, select(2, text:gsub("\27%[%?25h\27%[%?1049l", "")))
        assert.matches("\27%[Hredlock top  20%d%d.-Z  3 of 3 servers vote  q: quit\27%[K", text)
        assert.matches("deploy\\x1b%[2J +lock +[%d.]+ s +0 +%w+[^\n]*    web%-1\27", text)
        assert.matches("  longlo[long]*%.%.%.[long]*longer +lock +[%d.]+ s ", text)
        assert.is_nil(text:find("\27[2J", 1, true))       -- nothing is cleared, nothing flickers
    end)

    it("says what is wrong with its words", function()
        for _, words in ipairs { { "a", "b" }, { "--count", "0" }, { "--count", "x" },
            { "--every", "x" } } do
            local status = cli.ends(start(unpack(words)))
            assert.equal(FAILED, status)
        end
    end)
end)
