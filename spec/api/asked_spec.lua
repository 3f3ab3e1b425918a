-- Holders who are asked to let go: lock:onAsked and client:ask.
local support = require "spec.support"

local fails = support.fails

local function key(name) return "redlock:{" .. name .. "}:asked" end
local function channel(name) return "redlock:{" .. name .. ":asked}:free" end

describe("who holds a lock", function()
    local cluster, client, other

    before_each(function()
        cluster = cluster or support.cluster(3)
        cluster:flush()
        client = support.warm_client(cluster, { label = "web-1" })
        other = support.warm_client(cluster, { label = "web-2 \27[31m" })
    end)
    after_each(function()
        client:close()
        other:close()
        cluster:each(function(s) if s.frozen then s:thaw() end end)
    end)
    teardown(support.cleanup)

    -- Servers on which somebody listens.
    local function listening(name)
        local n = 0
        cluster:each(function(s) n = n + s:call("PUBSUB", "NUMSUB", channel(name))[2] end)
        return n
    end

    -- Servers on which a request lies.
    local function requests(name)
        local n = 0
        cluster:each(function(s) n = n + s:call("EXISTS", key(name)) end)
        return n
    end

    -- Calls the library until fn() is true, as a program does.
    local function work_until(l, fn)
        support.eventually(function()
            l:isValid()
            return fn()
        end, 20)
    end

    -- A lock that is held, and listens; and what it was told.
    local function held(lock)
        local told = {}
        assert.is_true(lock:tryLock(5, 50))
        assert.is_true(lock:onAsked(function(l, why, who)
            told[#told + 1] = { lock = l, why = why, who = who }
        end))
        return lock, told
    end

    -- The same, with its first look behind it: what comes now is news.
    local function awake(lock)
        local told
        lock, told = held(lock)
        work_until(lock, function() return listening(lock:getName()) == 3 end)
        local settled = support.now() + 0.1
        work_until(lock, function() return support.now() > settled end)
        return lock, told
    end

    it("is asked to let go of it, and told by whom and why", function()
        local l, told = awake(client:getLock "x")
        local holder = assert(other:ask("x", "deploy\nof \1 today"))
        assert.same({ "web-1", true, false }, { holder.label, holder.heard, holder.before })
        assert.is_true(holder.remaining > 40 and holder.since > 1e9)
        cluster:each(function(s) s:call "PING" end)      -- the messages are on their way before it
        assert.same({}, told)                            -- nobody is called between two calls
        assert.is_true(l:isValid())                      -- the next one
        assert.equal(1, #told)
        assert.same({ "deploy?of ? today", "web-2 ?[31m" }, { told[1].why, told[1].who })
        assert.equal("x", told[1].lock:getName())
        support.eventually(function() return requests "x" == 0 end, 20)
        assert.is_true(told[1].lock:unlock())            -- it is the owner's
        assert.is_false(l:isValid())
        assert.equal(0, cluster:keys())
        support.eventually(function() return listening "x" == 0 end, 20)
    end)

    it("may let go as soon as it is told", function()
        local l = client:getLock "x"
        assert.is_true(l:tryLock(5, 50))
        local ok, n = nil, 0
        for _ = 1, 2 do
            assert.is_true(l:onAsked(function(mine)
                ok, n = mine:unlock(), n + 1
            end))
        end
        assert(other:ask "x")
        work_until(l, function() return n > 0 end)
        assert.same({ true, 1 }, { ok, n })              -- the other one has nothing to let go
        assert.is_false(l:isValid())
        assert.equal(0, cluster:keys())
    end)

    it("may be nobody, or not listen, or be of another library", function()
        assert.is_false(other:ask("x", "please"))
        assert.equal(0, cluster:keys())
        local l = client:getLock "x"
        assert.is_true(l:tryLock(5, 50))
        local holder = assert(other:ask("x", "please"))
        assert.same({ "web-1", false, false }, { holder.label, holder.heard, holder.before })
        cluster:each(function(s)
            local left = s:call("PTTL", key "x")
            assert.is_true(left > 20000 and left <= 30000, left)
        end)
        assert.equal(1, #assert(client:locks()))         -- a request is no lock
        holder = assert(other:ask("x", "again"))         -- the first one is to be read still
        assert.same({ false, true }, { holder.heard, holder.before })
        local told
        l, told = held(client:getLock "x")
        work_until(l, function() return told[1] end)     -- who listens late is told
        assert.equal("please", told[1].why)
        assert.is_true(l:unlock() and l:unlock())
        cluster:each(function(s) s:call("SET", "theirs", "redsync", "PX", 20000) end)
        holder = assert(other:ask "theirs")
        assert.is_nil(holder.label)
        assert.is_false(holder.heard)
        cluster:each(function(s) s:call("HSET", "hash", "redisson", 1) end)
        assert.is_false(assert(other:ask "hash").heard)
        assert.has_error(function() other:ask("x", ("w"):rep(161)) end)
        assert.has_error(function() other:ask("x", 5) end)
        assert.has_error(function() l:onAsked() end)
        fails("not_held", l:onAsked(print))
    end)

    it("is told each request once", function()
        local l, told = awake(client:getLock "x")
        assert.is_true(assert(other:ask("x", "one")).heard)
        local text
        cluster:each(function(s) text = s:call("GET", key "x") or text end)
        work_until(l, function() return told[1] end)
        for again = 1, 2 do
            cluster[again]:call("SET", key "x", text, "PX", 20000)
            cluster[again]:call("PUBLISH", channel "x", "")
            work_until(l, function() return requests "x" == 0 end)     -- it was read
        end
        assert(other:ask("x", "two"))
        work_until(l, function() return told[2] end)
        assert.same({ "one", "two" }, { told[1].why, told[2].why })
        assert.equal(2, #told)
        assert.is_true(l:unlock())
    end)

    it("is asked, and hears of it, while a server hangs", function()
        local l, told = awake(client:getLock "x")
        cluster[2]:freeze()
        assert.is_true(assert(other:ask("x", "one")).heard)
        work_until(l, function() return told[1] end)
        assert.is_true(l:unlock())
    end)

    it("is not told what was meant for the one before", function()
        assert.is_true(client:getLock("x"):tryLock(5, 50))
        assert(other:ask("x", "for the first"))
        support.eventually(function() return requests "x" == 3 end)    -- the last one is late
        assert.is_true(client:getLock("x"):unlock())
        local l, told = awake(client:getLock "x")
        assert.is_true(requests "x" >= 2)                -- it lies there still
        assert.same({}, told)
        local holder = assert(other:ask("x", "for the second"))
        assert.is_false(holder.before)
        work_until(l, function() return told[1] end)
        assert.equal("for the second", told[1].why)
        assert.is_true(l:unlock())
    end)

    it("is told nothing when it has lost it", function()
        local l, told = awake(client:getLock "x")
        local ears = l.client.holds:of(l.client.host.owner())["lock:x"].asked.ears
        cluster:each(function(s) s:call("DEL", "x") end)
        assert.is_false(other:ask("x", "nobody has it"))
        fails("lost", l:extend())
        assert.is_true(ears[1].over)
        assert.is_true(other:getLock("x"):tryLock(5, 50))
        assert.is_false(assert(other:ask("x", "you")).heard)
        work_until(l, function() return listening "x" == 0 end)
        assert.same({}, told)
        fails("not_held", client:getLock("x", { owner = 5 }):onAsked(print))
    end)

    it("may fail in its function, and have several", function()
        local l, told = awake(client:getLock "x")
        local said = {}
        client.host = setmetatable({ log = function(text) said[#said + 1] = text end },
            { __index = client.host })
        assert.is_true(l:onAsked(function() error("mine", 0) end))
        assert.is_true(l:onAsked(function() told.last = true end))
        assert(other:ask "x")
        work_until(l, function() return told.last end)
        assert.same({ "an onAsked function failed: mine" }, said)
        assert.equal("", told[1].why)
        assert.is_true(l:unlock())
    end)

    for _, kind in ipairs { "FencedLock", "FairLock", "read", "write", "multi" } do
        it("as a " .. kind .. " is asked, too", function()
            local function view(c)
                if kind == "multi" then
                    return c:getMultiLock { "x", "y" }
                elseif kind == "read" or kind == "write" then
                    local pair = c:getReadWriteLock "x"
                    return pair[kind .. "Lock"](pair)
                end
                return c["get" .. kind](c, "x")
            end
            local l, told = held(view(client))
            local readers = kind == "read" and support.warm_client(cluster)
            local second, told_too
            if readers then
                second, told_too = held(view(readers))
            end
            work_until(l, function()
                return listening "x" == (second and second:isValid() and 6 or 3)
            end)
            assert.is_true(assert(other:ask("x", "please")).heard)
            work_until(l, function() return told[1] end)
            assert.equal("please", told[1].why)
            if readers then
                work_until(second, function() return told_too[1] end)
                readers:close()
            elseif kind == "multi" then
                assert(other:ask("y", "the other"))
                work_until(l, function() return told[2] end)
            end
            assert.is_true(told[1].lock:unlock())
            assert.is_false(l:isValid())
        end)
    end

    it("and reads beside writing, is asked as the writer", function()
        local pair, told = client:getReadWriteLock "x", {}
        assert.is_true(pair:writeLock():tryLock(5, 50))
        assert.is_true(pair:readLock():tryLock(5))
        assert.is_true(pair:readLock():onEnding(60, function(_, left) told.left = left end))
        assert.is_true(told.left > 40)
        assert.is_true(pair:readLock():onAsked(function(_, why) told.why = why end))
        assert(other:ask("x", "please"))
        work_until(pair:readLock(), function() return told.why end)
        assert.equal("please", told.why)
        assert.is_true(pair:readLock():unlock() and pair:writeLock():unlock())
    end)

    it("of a kind that somebody else has made is not asked", function()
        local redlock = require "redlock"
        local own = redlock.primitive { name = "own", acquire = "return 1", release = "return 1" }
        local l = client:get(own, "x")
        assert.is_true(l:tryLock(5, 50))
        fails("unsupported", l:onAsked(print))
        assert.is_true(l:unlock())
    end)

    it("under a name that is too long for a channel is not asked", function()
        local long = client:getLock(("n"):rep(240))
        assert.is_true(long:tryLock(5, 50))
        fails("unsupported", long:onAsked(print))
        assert.equal(0, listening(("n"):rep(240)))
        assert.is_true(long:unlock())
    end)

    it("is not kept busy by strangers", function()
        local l, told = awake(client:getLock "x")
        local function calls()
            local n = 0
            cluster:each(function(s)
                n = n + s:calls_of "evalsha"
            end)
            return n
        end
        local before, from, sent = calls(), support.now(), 0
        repeat                                           -- messages, and requests that are new
            sent = sent + 1
            cluster:each(function(s)
                local digest = s:call("EVAL", "return redis.sha1hex(redis.call('get', 'x'))", 0)
                s:call("SET", key "x", ("%s %016x %s\n%s"):format(digest, sent,
                    ("\27"):rep(170), "x"), "PX", 30000)
                for _ = 1, 20 do
                    s:call("PUBLISH", channel "x", "")
                end
            end)
            l:isValid()
        until support.now() - from > 5
        local most = 10 + (support.now() - from) + 1
        assert.is_true(sent > 2 * most, sent)
        assert.is_true(calls() - before <= 3 * most, calls() - before)
        assert.is_true(#told > 0 and #told <= most, #told)
        for _, one in ipairs(told) do
            assert.matches("^[ -~]*$", one.why .. one.who)
            assert.is_true(#one.why <= 160)
        end
        assert.is_true(l:unlock())
    end)

    it("does not listen to a flood, and listens again", function()
        local l, told = awake(client:getLock "x")
        support.eventually(function()
            for _ = 1, 100 do
                cluster[1]:call("PUBLISH", channel "x", "")    -- fewer than a majority
                l:isValid()
            end
            return listening "x" == 0
        end, 60)
        work_until(l, function() return listening "x" == 3 end)
        assert.is_true(assert(other:ask("x", "please")).heard)
        work_until(l, function() return told[1] end)
        assert.is_true(l:unlock())
    end)
end)
