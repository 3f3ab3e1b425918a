-- Misuse raises at the line of the caller, and says what is wrong there.
local redlock = require "redlock"

local client = redlock.new { nodes = "redis://127.0.0.1:1", connect_timeout = 0.1 }
local plain, fenced = client:getLock "x", client:getFencedLock "x"
local future = plain:tryLockAsync()
local own = client:get(redlock.primitive { name = "own", acquire = "return 1",
    release = "return 1", methods = { four = function(_, a, b, c, d) return a, b, c, d end } }, "x")

teardown(function() client:close() end)

-- All methods that an object has.
local function methods(object)
    local found = {}
    for name, value in pairs(getmetatable(object)) do
        if type(value) == "function" and not name:find "^__" and name ~= "now" then
            found[name] = value
        end
    end
    return found
end

local function raises_here(pattern, fn)
    local ok, err = pcall(fn)
    assert.is_false(ok, pattern)
    assert.is_string(err)
    assert.matches("misuse_spec%.lua:%d+: redlock: ", err)
    assert.matches(pattern, err)
end

describe("misuse raises at the caller's line", function()
    for what, object in pairs { client = client, lock = plain, ["fenced lock"] = fenced,
        ["primitive"] = own, future = future } do
        it("where a method is called with a dot: " .. what, function()
            local n = 0
            for name, method in pairs(methods(object)) do
                local text = ("%%.%s needs a %%a+ as its first argument; write "):format(name)
                raises_here(text, function() method() end)
                raises_here(text, function() method {} end)
                raises_here(text, function() method "x" end)
                raises_here(text, function() method(42) end)
                raises_here(text, function() method(setmetatable({}, {})) end)
                n = n + 1
            end
            assert.is_true(n > 2)
        end)
    end

    it("where a method has another name", function()
        local election = client:getElection("x", { id = "a" })
        for tried, object in pairs { getlock = client, get_fenced_lock = client, trylock = plain,
            try_lock = fenced, acquire = plain, release = own, renew = fenced, isleader = election,
            get_count = client:getCountDownLatch "x" } do
            raises_here("a %a+ has no method '" .. tried .. "'; use '%a+'", function()
                object[tried](object)
            end)
        end
        assert.is_nil(plain.nonsense)
    end)

    it("where an argument is of another type", function()
        for _, wrong in ipairs { 42, true, {}, print } do
            raises_here("bad transfer", function() client:import(wrong) end)
            raises_here("bad %a+", function() client:checkSequencer(wrong) end)
            raises_here("bad name", function() client:getLock(wrong) end)
            raises_here("bad name", function() client:getFencedLock(wrong) end)
            raises_here("bad primitive", function() client:get(wrong, "x") end)
            local fn = wrong ~= print and wrong or nil
            raises_here("bad %a+", function() client:using("x", fn) end)
        end
        for _, wrong in ipairs { "5", true, {}, print } do
            raises_here("bad wait", function() plain:tryLock(wrong) end)
            raises_here("bad lease", function() plain:tryLock(0, wrong) end)
            raises_here("bad lease", function() plain:lock(wrong) end)
            raises_here("bad lease", function() plain:extend(wrong) end)
            raises_here("bad timeout", function() future:get(wrong) end)
        end
        raises_here("bad fn", function() plain:onLost(42) end)
        raises_here("bad list", function() redlock.wait_all(42) end)
    end)
end)

describe("an argument too many raises", function()
    local semaphore, limiter = client:getSemaphore("x", 2), client:getRateLimiter("x", 2, 60)

    it("where Redisson has a unit, or a number of permits", function()
        local seconds = "; durations are seconds, without a unit"
        raises_here("lock:tryLock takes at most 2 arguments" .. seconds,
            function() plain:tryLock(5, 10, "SECONDS") end)
        raises_here("lock:lock takes at most 1 argument" .. seconds,
            function() plain:lock(10, "SECONDS") end)
        raises_here("semaphore:tryAcquire takes at most 2", function()
            semaphore:tryAcquire(2, 5, "SECONDS")
        end)
        raises_here("limiter:tryAcquire takes at most 1", function() limiter:tryAcquire(2, 5) end)
        raises_here("lock:isValid takes no arguments", function() plain:isValid(1) end)
    end)

    it("unless it is nil", function()
        assert.is_false(plain:isValid(nil))
        assert.is_nil((plain:tryLock(0, 10, nil)))
    end)
end)

describe("a method of a primitive of one's own", function()
    it("takes any number of arguments", function()
        assert.same({ 1, 2, 3, 4 }, { own:four(1, 2, 3, 4) })
    end)
end)
