-- Writers with tokens, beside readers and everybody else who locks the name.
local support = require "spec.support"

describe("a fenced write lock", function()
    local cluster, client, other

    support.two_clients(5, { lease = 3, fallback = 1 },
        function(...) cluster, client, other = ... end)

    local function pair(owner, c)
        return (c or client):getReadWriteLock("x", { fenced = true, owner = owner })
    end
    local function reader(owner, c) return pair(owner, c):readLock() end
    local function writer(owner, c) return pair(owner, c):writeLock() end

    it("counts on where fenced locks of the name are, and they where it is", function()
        local ok, first = assert(writer(1):tryLock(5, 10))
        assert.is_true(ok)
        assert.equal(first, writer(1):token())
        assert.is_true(writer(1):stillMine())
        assert.is_true(writer(1):extend(10))
        assert.equal(first, writer(1):token())
        assert.is_true(client:checkSequencer(writer(1):sequencer()))
        assert.is_true(writer(1):unlock())
        local fenced = other:getFencedLock "x"
        local _, second = assert(fenced:tryLock(5, 10))
        assert.is_true(second > first and second < first + 5)    -- more where an answer was late
        support.fails("held", writer(1):tryLock(0, 10))
        assert.is_true(fenced:unlock())
        local _, third = assert(writer(1):tryLock(5, 10))
        assert.is_true(third > second and third < second + 5)
        support.fails("held", fenced:tryLock(0, 10))
        assert.is_true(writer(1):unlock())
    end)

    it("excludes readers and writers of all kinds, and is excluded", function()
        local plain = other:getReadWriteLock("x", { owner = 2 })
        assert.is_true(writer(1):tryLock(1, 10))
        for _, lock in ipairs { plain:readLock(), plain:writeLock(), reader(2, other),
            writer(2, other), other:getLock "x" } do
            support.fails("held", lock:tryLock(0, 10))
        end
        assert.is_true(writer(1):unlock())
        for _, lock in ipairs { plain:readLock(), plain:writeLock(), other:getLock "x" } do
            assert.is_true(lock:tryLock(5, 10))
            support.fails("held", writer(1):tryLock(0, 10))
            assert.is_true(lock:unlock())
        end
        assert.is_true(reader(1):tryLock(1, 10))
        assert.is_true(reader(2, other):tryLock(1, 10))
        assert.is_nil(reader(1).token)
    end)

    it("counts nothing while readers keep it out", function()
        local _, first = assert(writer(1):tryLock(5, 10))
        assert.is_true(writer(1):unlock())
        assert.is_true(reader(2, other):tryLock(1, 10))
        support.eventually(function()
            local n = 0
            cluster:each(function(s) n = n + (s:call("TYPE", "x") == "zset" and 1 or 0) end)
            return n == #cluster
        end)
        for _ = 1, 3 do
            support.fails("held", writer(1):tryLock(0, 10))
        end
        assert.is_true(reader(2, other):unlock())
        local _, second = assert(writer(1):tryLock(5, 10))
        assert.is_true(second > first and second < first + 3)    -- two where an answer was late
    end)

    it("closes the door while it waits, and opens it", function()
        local DOOR = "redlock:{x}:door"
        assert.is_true(reader(1):tryLock(1, 10))
        support.fails("held", writer(2, other):tryLock(0, 10))
        assert.equal(0, cluster:having(DOOR))
        local writing = writer(2, other):tryLockAsync(30, 10)
        support.eventually(function()
            writing:isDone()
            return cluster:having(DOOR) >= 3
        end)
        support.fails("held", reader(3):tryLock(0, 10))
        assert.is_true(reader(1):unlock())
        assert.is_true(writing:get(20))
        assert.is_true(writer(2, other):unlock())
        support.eventually(function()
            other:getLock("turn"):isLocked()
            return cluster:having(DOOR) == 0
        end)
        assert.is_true(reader(3):tryLock(0, 10))
        support.fails("held", writer(2, other):tryLock(0.2, 10))       -- gives up
        support.eventually(function()
            other:getLock("turn"):isLocked()
            return cluster:having(DOOR) == 0
        end)
    end)

    it("is not entered to read by who writes, nor to write by who reads", function()
        assert.is_true(writer(1):lock())
        support.fails("deadlock", reader(1):lock())
        assert.is_true(writer(1):unlock())
        assert.is_true(reader(1):lock())
        support.fails("deadlock", writer(1):lock())
        assert.is_true(reader(1):unlock())
    end)

    it("passes on within a process, with a token of its own", function()
        local _, first = assert(writer(1):tryLock(5, 10))
        local next_one = writer(2):tryLockAsync(20, 10)
        next_one:isDone()
        assert.is_true(writer(1):unlock())
        assert.is_true(next_one:get(20))
        assert.is_true(writer(2):token() > first)
        assert.is_true(writer(2):unlock())
    end)

    it("is exported and imported with its token", function()
        local _, token = assert(writer(1):tryLock(5, 10))
        local imported = assert(other:import(assert(writer(1):export()), { owner = 2 }))
        assert.equal(token, imported:token())
        assert.is_true(imported:unlock())
    end)

    it("is used by a function, and released", function()
        local used, token = client:using("x", { kind = "write", fenced = true }, function(lock)
            return lock:token()
        end)
        assert.is_true(used)
        assert.is_true(token < select(2, assert(writer(1):tryLock(5, 10))))
        assert.has_error(function()
            client:using("x", { kind = "read", fenced = true }, function() end)
        end)
    end)

    it("takes the options of a lock, and no others", function()
        assert.matches("^write lock", tostring(client:getReadWriteLock("x", { fenced = false,
            label = "a job" }):writeLock()))
        assert.matches("^fenced write lock", tostring(writer(1)))
        for _, opts in ipairs { { fenced = 1 }, { fenced = true, no = 1 }, 7 } do
            assert.has_error(function() client:getReadWriteLock("x", opts) end)
        end
    end)
end)
