-- redlock ls and wait.
local cli = require "spec.support.command"
local support = require "spec.support"

local HELD, FAILED = 124, 125

describe("redlock", function()
    local cluster = support.shared_cluster(3)
    local home, client

    setup(function() home = support.tmpdir() end)
    before_each(function() client = support.warm_client(cluster, { label = "web-1" }) end)
    after_each(function() client:close() end)

    local start, redlock = cli.on(function() return cluster, home end)

    it("ls lists what is held", function()
        assert.same({ 0, "" }, { redlock "ls" })
        local fenced = client:getFencedLock("deploy:web", { label = "release\0277" })
        assert(fenced:tryLock(0, 20))
        assert(client:getLock("a\nb"):tryLock(0, 20))
        local permit = assert(client:getSemaphore("deploy:slots", 2):tryAcquire(0, 20))
        local status, text = redlock "ls"
        assert.equal(0, status)
        assert.matches("NAME +KIND +HOLDER +LEFT +WAITING +SINCE +TOKEN\n", text)
        assert.matches("\n  a\\x0ab +lock +web%-1 +[12][%d.]+ s +0 +%w[^\n]*\n", text)
        assert.matches(("\n  deploy:web +fenced lock +web%%-1: release%%?7 +[12][%%d.]+ s +0 +"
            .. "%%w[%%w. ]* +%.0f\n"):format(fenced:token()), text)
        assert.matches("\n  deploy:slots +permits +1 permit +[12][%d.]+ s +0\n", text)
        status, text = redlock("ls", "deploy:*")
        assert.equal(0, status)
        assert.is_nil(text:find("x0ab", 1, true))
        assert.matches("deploy:web", text)
        assert.is_true(permit:release())
    end)

    it("ls fits a narrow terminal: holders below, no tokens, then shorter names", function()
        if not support.sh "command -v script > /dev/null" then
            return pending "no script here"
        end
        local long = "deploy:" .. ("\195\188"):rep(20) .. ":web"
        local label = "ci-runner-17.example.org 12345 redlock: ./deploy"
        assert(client:getFencedLock("x", { label = label }):tryLock(0, 50))
        assert(client:getFencedLock(long):tryLock(0, 50))
        local function ls(columns)
            local p = support.spawn { "script", "-qec", ("stty rows 24 cols %d; %s ls"):format(
                columns, cli.REDLOCK), "/dev/null", stdin = "null", stdout = "pipe",
                stderr = "stdout",
                env = { HOME = home, LC_ALL = "C.UTF-8", REDLOCK_CLUSTER = support.CLUSTER,
                    REDLOCK_NODES = table.concat(cluster:uris(), " "), TERM = "xterm" } }
            local text = p:read_all(20)
            assert.equal(0, p:wait(10), text)
            for line in text:gmatch "[^\r\n]+" do
                assert.is_true(#line:gsub("[\128-\191]", "") <= columns, line)
            end
            return text
        end
        label = "web%-1: " .. label:gsub("%p", "%%%0")
        assert.matches("\n  x +fenced lock +" .. label .. " +%d", ls(200))
        assert.matches("SINCE +TOKEN", ls(100))
        local text = ls(80)
        assert.truthy(text:find(long, 1, true))
        assert.is_nil(text:find "TOKEN")
        assert.matches("\n  x +fenced lock +[45][%d.]+ s +0 +%w[^\r\n]+\r\n    " .. label
            .. "\r\n", text)
        assert.matches("\n  deploy:[\195\188]+%.%.%.[\195\188]+:web +fenced lock ", ls(60))
    end)

    it("ls --json is JSON, whatever names have in them", function()
        assert(client:getLock("\255\254 ü \194\155 \"\\"):tryLock(0, 20))
        cluster:each(function(s)
            s:call("SET", "theirs", "redsync", "PX", 20000)
        end)
        local status, text = redlock("ls", "--json", "--foreign")
        assert.equal(0, status)
        assert.matches('^{"locks": %[{.*"kind": "foreign", "name": "theirs".*}%], "long": 0, '
            .. '"more": false}\n$', text)
        assert.truthy(text:find('"name": "\\ufffd\\ufffd ü \\u009b \\"\\\\"', 1, true), text)
        assert.matches('"label": "web%-1"', text)
        status, text = redlock("ls", "nothing", "--json")
        assert.same({ 0, '{"locks": [], "long": 0, "more": false}\n' }, { status, text })
    end)

    it("ls --json has more names than a function of Lua can return", function()
        cluster:each(function(s)
            s:call("EVAL", "for i = 1, 9000 do redis.call('set', 'many:' .. i, "
                .. "string.format('%040x', i), 'px', 60000) end", 0)
        end)
        local status, text = redlock("ls", "--json")
        assert.equal(0, status, text:sub(1, 200))
        assert.equal(9000, (select(2, text:gsub('"name": "many:%d+"', ""))))
    end)

    it("shows names in UTF-8 where the terminal is so, but nothing that hides or moves", function()
        local odd = { ["gr\195\188n \240\159\148\146"] = "gr\195\188n \240\159\148\146",
            ["bad\255\195"] = "bad\\xff\\xc3", ["c1 \194\155"] = "c1 \\xc2\\x9b",
            ["rtl \226\128\174x"] = "rtl \\xe2\\x80\\xaex",
            ["bom \239\187\191x"] = "bom \\xef\\xbb\\xbfx", ["esc \27["] = "esc \\x1b[",
            [("\195\188"):rep(60)] = ("\195\188"):rep(30) .. "..." }
        for name in pairs(odd) do
            assert(client:getLock(name):tryLock(0, 50))
        end
        local function ls(locale)
            local status, text = cli.ends(start({ env = locale }, "ls"))
            assert.equal(0, status)
            return text
        end
        local text = ls { LC_ALL = "", LC_CTYPE = "de_DE.utf8", LANG = "C" }
        for _, shown in pairs(odd) do
            assert.truthy(text:find("\n  " .. shown .. " ", 1, true), shown)
        end
        for line in text:gmatch "[^\n]+" do           -- columns count characters
            local at = line:gsub("[\128-\191]", ""):find "fenced lock " or line:find "KIND"
                or line:gsub("[\128-\191]", ""):find "lock "
            assert.equal(text:find "KIND", at)
        end
        assert.truthy(ls({ LC_ALL = "C", LANG = "de_DE.UTF-8" }):find("gr\\xc3\\xbcn", 1, true))
    end)

    it("ls says why it cannot", function()
        cluster:each(function(s)
            s:user("blind", "on", ">pw", "~*", "&*", "+@all", "-scan")
        end)
        local p = start({ env = { PW = "pw" } }, "ls", "--user", "blind",
            "--password-env", "PW")
        local status, text = cli.ends(p)
        assert.equal(FAILED, status)
        assert.matches("noperm", text)
        assert.matches("examples/access/README.md", text)
        status, text = redlock("ls", "a", "b")
        assert.equal(FAILED, status)
        assert.matches("only one pattern", text)
    end)

    it("ls passes over keys that are none of ours", function()
        assert(client:getLock("x"):tryLock(0, 50))
        cluster:each(function(s)
            s:call("HSET", "redlock:{odd}:latch", "count", "abc", "id", "i")
            s:call("HSET", "redlock:{late}:latch", "count", "2", "id", "i")
            s:call("SET", "redlock:{late}:arrived", "x")
            s:call("ZADD", "redlock:{odd}:slots", "inf", "1")
            s:call("ZADD", "many", "inf", "1 abcdef")
            for _, key in ipairs { "redlock:{odd}:latch", "redlock:{late}:latch",
                "redlock:{odd}:slots", "many" } do
                s:call("PEXPIRE", key, 60000)
            end
        end)
        local status, text = redlock "ls"
        assert.equal(0, status, text)
        assert.matches("\n  x  ", text)
        assert.equal(3, (redlock("status", "odd")))
        cluster:flush()
    end)

    it("status passes over a waiter that is none of ours", function()
        local odd = "w\nx"
        cluster[1]:call("ZADD", "redlock:{odd}:queue", 1, odd)
        cluster[1]:call("HSET", "redlock:{odd}:standing", odd, "1 1 v 1")
        cluster[1]:call("ZADD", "redlock:{odd}:living", "99999999999999", odd)
        local status, text = redlock("status", "odd")
        assert.equal(3, status, text)
        assert.matches("odd is free", text)
        for _, kind in ipairs { "queue", "standing", "living" } do
            cluster[1]:call("DEL", "redlock:{odd}:" .. kind)
        end
    end)

    it("status tells of readers, of permits, and of who stands in line", function()
        local read = client:getReadWriteLock("rw", { label = "one" }):readLock()
        assert(read:tryLock(0, 20))
        local other = support.warm_client(cluster, { label = "web-2" })
        assert(other:getReadWriteLock("rw"):readLock():tryLock(0, 50))
        local status, text = redlock("status", "rw")
        assert.equal(0, status)
        assert.matches("^rw is held, for [45]%d%.%d s unless it is renewed, by 2 readers\n", text)
        assert.is_nil(text:find("held +%d"), text)          -- as the value is of no use
        assert.matches("\n  reader  [12]%d%.%d s  holder %x+: web%-1: one, since 20%d%d.-Z\n"
            .. "  reader  [45]%d%.%d s  holder %x+: web%-2, since 20", text)
        assert.is_nil(text:find("in line", 1, true))
        local permit = assert(client:getSemaphore("s", 5):tryAcquire(0, 20))
        status, text = redlock("status", "s")
        assert.equal(0, status)
        assert.matches("^s: 1 permit taken\n", text)
        assert.matches(("\n  permit %d  [12]%%d%%.%%d s  holder %%x+: web%%-1")
            :format(permit:slot()), text)
        assert(client:getFairLock("fair"):tryLock(0, 50))
        local a, b = other:getFairLock("fair", { owner = 1 }), support.warm_client(cluster,
            { label = "web-3" })
        local first = a:lockAsync()
        support.eventually(function()
            first:get(0.01)
            return cluster[1]:call("ZCARD", "redlock:{fair}:queue") == 1
        end, 20)
        local second = b:getFairLock("fair"):lockAsync()
        support.eventually(function()
            first:get(0.01)
            second:get(0.01)
            status, text = redlock("status", "fair", "--json")
            return text:find('"queue": [{', 1, true) and text:find("web-3", 1, true)
        end, 30)
        assert.equal(0, status)
        assert.matches('"queue": %[{"label": "web%-2", .-}, {"label": "web%-3", .-}%]', text)
        assert.matches('"waiting": %d', text)
        status, text = redlock("status", "fair")
        assert.equal(0, status)
        assert.matches("\n  in line  1%.  a waiter: web%-2, since 20.*"
            .. "\n  in line  2%.  a waiter: web%-3, since 20", text)
        first:cancel()
        second:cancel()
        b:close()
        other:close()
    end)

    it("knows every kind of a name: status, wait, ls and unlock --force", function()
        local function take(kind, name)
            if kind == "permit" then
                return assert(client:getSemaphore(name, 2):tryAcquire(0, 50))
            elseif kind == "latch" then
                assert.is_true(client:getCountDownLatch(name):trySetCount(3))
                return assert(client:getCountDownLatch(name):countDown())
            end
            local lock = kind == "reader" and client:getReadWriteLock(name):readLock()
                or kind == "fair" and client:getFairLock(name) or client:getFencedLock(name)
            return assert(lock:tryLock(0, 50))
        end
        local taken = {}         -- or a collector releases the permit before the command does
        for kind, said in pairs {
            permit = { "permits", "1 permit", "^NAME: 1 permit taken\n" },
            latch = { "latch", "2 arrivals missing",
                "^NAME is a latch: 2 of 3 have not arrived\n" },
            reader = { "readers", "1 reader", "^NAME is held, [^\n]* by 1 reader\n" },
            fair = { "lock", "web%-1", "^NAME is held, [^\n]*\n  web%-1" },
            fenced = { "fenced lock", "web%-1", "^NAME is held, [^\n]*\n  web%-1" },
        } do
            local status, text = redlock("status", kind)
            assert.same({ 3, kind .. " is free" }, { status, text:match "^[^\n]*" })
            taken[kind] = take(kind, kind)
            status, text = redlock("status", kind)
            assert.equal(0, status)
            assert.matches((said[3]:gsub("NAME", kind)), text)
            assert.matches('"held": true', (select(2, redlock("status", kind, "--json"))))
            assert.matches(kind .. " +" .. said[1] .. " +" .. said[2] .. " ", (select(2,
                redlock("ls"))))
            assert.equal(HELD, (redlock("wait", kind, "--wait", "0.1")))
            assert.same({ 0, kind .. " is open now\n" }, { redlock("unlock", "--force", kind) })
            assert.equal(0, (redlock("wait", kind, "--wait", "20")))
            assert.equal(3, (redlock("unlock", "--force", kind)))
        end
        assert.is_nil((taken.permit:release()))
    end)

    it("tells a name that stays closed from one that is held", function()
        assert.equal(0, (redlock("run", "job", "--once", "50", "--", "true")))
        local status, text = redlock("status", "job")
        assert.equal(0, status)
        assert.matches("^job is held by nobody, and stays closed for [45]%d%.%d s:\n  closed by "
            .. "%S+ %d+ redlock: true, since 2", text)
        local lock = client:getLock "x"
        assert(lock:tryLock(0, 20))
        assert.is_true(lock:settle(40, { keep = true }))
        assert.is_nil(client:holder "x".label:find "closed")
        assert.is_true(lock:settle(50))
        assert.equal("closed by web-1", client:holder "x".label)
        support.fails("held", client:getLock("x"):tryLock(0))
    end)

    it("puts the command on the card, whatever is held", function()
        for _, words in ipairs { { "run", "x", "--permits", "2" }, { "run", "x", "--shared" },
            { "run", "x" }, { "lead", "x" } } do
            for _, word in ipairs { "--", "sleep", "30" } do
                words[#words + 1] = word
            end
            local p = start({}, unpack(words))
            support.eventually(function()
                return (select(2, redlock("status", "x"))):find "redlock: sleep, since"
            end, 60)
            p:kill "TERM"
            p:wait(20)
        end
    end)

    it("wait ends when nobody holds it, without a pause", function()
        assert.same({ 0, "" }, { redlock("wait", "x") })
        local lock = client:getLock "x"
        assert(lock:tryLock(0, 50))
        local p = start({}, "wait", "x")
        support.eventually(function()
            local heard = cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x}:free")
            return heard[2] == 1
        end, 20)
        assert.is_nil(p:wait(0.5))
        assert(lock:unlock())
        assert.equal(0, p:wait(20))
        assert.is_false(client:getLock("x"):isLocked())
    end)

    it("wait gives up in time, at a signal, and without servers", function()
        assert(client:getLock("x"):tryLock(0, 50))
        local gave_up, why = redlock("wait", "x", "--wait", "0.1")
        assert.equal(HELD, gave_up)
        assert.matches("^redlock: x is held by web%-1\n$", why)
        local p = start({}, "wait", "x")
        support.eventually(function()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{x}:free")[2] == 1
        end, 20)
        p:kill "TERM"
        assert.equal(128 + 15, p:wait(20))
        local status, text = cli.ends(start({}, "wait", "x", "--nodes",
            "redis://127.0.0.1:1"), 60)
        assert.equal(FAILED, status)
        assert.matches("refused", text)
    end)
end)
