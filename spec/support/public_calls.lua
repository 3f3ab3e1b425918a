-- Every public call of a client and of all that a client gives: found by looking at the objects,
-- so that a method that is added later is among them. None of them waits for long: the names are
-- free, or held by the caller.
local _M = {}

-- What is left out: what is nginx's, no method, or of the library's own.
local OUT = { now = true, serve = true, start = true, publish = true, describe = true,
    finish_true = true, scripts = true, free_owner = true, __await = true, open = true,
    attach = true, detach = true }

local function nothing()
end

-- What a method gets that wants something.
local ARGS = {
    ask = false, await = { 0.01 }, awaitAsync = { 0.01 }, campaign = { 0.01 },
    acquire = { 0.01 }, acquireAsync = { 0.01 }, campaignAsync = { 0.01 }, checkSequencer = { "x" },
    connect = { 0 }, countDown = { "me" }, countDownAsync = { "me" }, extend = { 2 },
    extendAsync = { 2 }, getCountDownLatch = { "l" }, getElection = { "e", { id = "me" } },
    getFairLock = { "n" }, getFencedLock = { "n" }, getLock = { "n" }, getMultiLock = { { "n" } },
    getPermitExpirableSemaphore = { "s", 2 }, getRateLimiter = { "r", 5, 1 },
    getReadWriteLock = { "n" }, getSemaphore = { "s", 2 }, import = { "x" },
    locks = { "*" }, observe = { nothing }, onEnding = { 1, nothing }, onLost = { nothing },
    once = { "once", 0.01, nothing }, settle = { 1, { keep = true } }, trySetCount = { 2 },
    tryAcquire = { 0 }, tryAcquireAsync = { 0 }, tryLock = { 0 }, tryLockAsync = { 0 },
    using = { "using", { wait = 0 }, nothing },
}
-- ... and those of one kind of object.
local OF = {
    future = { get = { 0.01 }, finish = false }, ["rate limiter"] = { acquire = { 0 } },
    client = { get = true, holder = { "n" }, change = "itself" },
    own = { ask = { "sum", { "1" } } },
}

-- What they are called on, from a client with what it holds.
local function objects(redlock, client, own)
    local function mine(name) return { owner = "mine " .. name } end
    local rw = client:getReadWriteLock("rw", mine "rw")
    local semaphore = client:getSemaphore("s", 3)
    local list = {
        client = client, lock = client:getLock("a", mine "a"), ["read-write lock"] = rw,
        ["fenced lock"] = client:getFencedLock("f", mine "f"), ["write lock"] = rw:writeLock(),
        ["read lock"] = client:getReadWriteLock("r", mine "r"):readLock(),
        ["multi lock"] = client:getMultiLock({ "m1", "m2" }, mine "m"),
        ["fair lock"] = client:getFairLock("fair", mine "fair"),
        own = client:get(own, "own", mine "o"),
        semaphore = semaphore, latch = client:getCountDownLatch "latch",
        ["rate limiter"] = client:getRateLimiter("rate", 100, 1),
        election = client:getElection("election", { id = "me" }),
    }
    list.metrics = client.options.metrics or redlock.metrics
    return list, semaphore
end

-- All calls: a list of { what it is, function() }.
local function calls_of(list, own, texts)
    local calls = {}
    for what, object in pairs(list) do
        for name, method in pairs(getmetatable(object)) do
            local args = (OF[what] or {})[name]
            if args == nil then
                args = texts[name] or ARGS[name]
            end
            args = args == true and { own, "n" } or args == "itself" and { object }
                or args == nil and {} or args
            if type(method) == "function" and not OUT[name] and args
                and (not name:find "^__" or name == "__tostring") then
                calls[#calls + 1] = { what .. ":" .. name,
                    function() return method(object, unpack(args)) end,
                    method = method, object = object }
            end
        end
    end
    local function last(call) return call[1] == "client:close" and 1 or 0 end
    table.sort(calls, function(a, b)
        return last(a) < last(b) or last(a) == last(b) and a[1] < b[1]
    end)
    return calls
end

-- A kind of lock of the user's own.
function _M.own(redlock)
    return redlock.primitive { name = "own",
        acquire = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
        release = "return redis.call('del', KEYS[1])",
        asks = { sum = { "return 1" } } }
end

-- Takes one of each kind, if `held`; where the caller may wait.
-- @return the calls, on those objects: { what it is, function(), method = , object = }
function _M.prepare(redlock, client, held)
    local own = _M.own(redlock)
    local list, semaphore = objects(redlock, client, own)
    local texts = {}
    if held then
        for _, object in pairs(list) do
            if object.tryLock then
                assert(object:tryLock(10))
            end
        end
        list.permit = assert(semaphore:tryAcquire(10))
        assert(list.latch:trySetCount(5))
        local given = client:getLock("given", { owner = "giver" })
        assert(given:tryLock(10))
        texts.import = { assert(given:export()) }
        texts.checkSequencer = { assert(list["fenced lock"]:sequencer()) }
        assert(client:getLock("busy", { owner = "mine" }):tryLock(10))
        list.future = client:getLock("busy", { owner = "other" }):tryLockAsync(60)
    end
    return calls_of(list, own, texts)
end

-- What came of a call, in a word: a code, "value", or what it raised; of a future, of its call.
function _M.outcome(call)
    local ok, value, err = pcall(call[2])
    if ok and (getmetatable(value) or {}).is_future == true then
        ok, value, err = pcall(value.get, value, 0.01)
    end
    if not ok then
        return tostring(value)
    elseif value == nil and type(err) == "table" then
        return err.code
    end
    return "value"
end

return _M
