-- Permits with tokens: counted per slot.
local forged = require "spec.support.forged"
local support = require "spec.support"
local torture = require "spec.support.torture"

describe("a permit's token", function()
    local cluster, client, other

    support.two_clients(5, { lease = 3 }, function(...) cluster, client, other = ... end)

    local function semaphore(n, c)
        return (c or client):getSemaphore("x", n, { fenced = true })
    end

    local function await_counter(i, key)
        support.eventually(function()
            client:getLock("turn"):isLocked()
            return cluster[i]:call("EXISTS", key) == 1
        end)
    end

    -- On the first n servers, where each goes on from its floor, which is above.
    local function delete_counters(key, n)
        for i = 1, n do
            await_counter(i, key)
            cluster[i]:call("DEL", key)
        end
    end

    it("grows by one with each holder of the slot, whatever happens to others", function()
        local last = {}
        for i = 1, 6 do
            local permits = {}
            for k = 1, 2 do
                permits[k] = assert(semaphore(2, i % 2 == 0 and other or client):tryAcquire(5, 10))
                local slot, token = permits[k]:slot(), permits[k]:token()
                assert.equal(last[slot] and last[slot] + 1 or token, token)
                last[slot] = token
            end
            assert.are_not.equal(permits[1]:slot(), permits[2]:slot())
            assert.is_true(permits[1]:release())
            assert.is_true(permits[2]:release())
        end
    end)

    it("goes on where servers have it and others had been without it", function()
        local first = assert(semaphore(1):tryAcquire(5, 10))
        local token = first:token()
        assert.is_true(first:release())
        local key = "redlock:{x:slots#1}:fence"
        delete_counters(key, 2)
        local second = assert(semaphore(1):tryAcquire(5, 10))
        assert.is_true(second:token() > token)
        local n = 0
        support.eventually(function()
            client:getLock("turn"):isLocked()
            n = 0
            cluster:each(function(s)
                local text = s:call("GET", key) or ""
                n = n + (text:match "^%x%x%x%x%x%x%x%x(%d+) " == ("%.0f"):format(second:token())
                    and 1 or 0)
            end)
            return n >= 3
        end)
        assert.is_true(second:release())
    end)

    it("is that of this hold, as long as it lasts", function()
        local permit = assert(semaphore(1):tryAcquire(5, 0.5))
        assert.equal(permit:token(), permit:token())
        support.eventually(function() return not permit:isValid() end)
        support.fails("lost", permit:token())
        permit = assert(semaphore(1):acquire())
        assert.is_true(permit:extend())
        assert.is_number(permit:token())
        assert.is_true(permit:release())
        support.fails("not_held", permit:token())
        permit = assert(semaphore(1):tryAcquireAsync(5):get(20))
        assert.is_number(permit:token())
        support.fails("unsupported", assert(other:getSemaphore("y", 1):tryAcquire(5)):token())
        assert.is_true(permit:release())
    end)

    it("goes to another process with it", function()
        local permit = assert(semaphore(2):tryAcquire(5, 10))
        local slot, token = permit:slot(), permit:token()
        local theirs = assert(other:import(assert(permit:export()), { owner = "them" }))
        support.fails("not_held", permit:token())
        assert.same({ slot, token }, { theirs:slot(), theirs:token() })
        assert.is_true(theirs:extend(10))
        assert.equal(token, theirs:token())
        theirs = assert(client:import(assert(theirs:export())))
        assert.equal(token, theirs:token())
        assert.is_true(theirs:release())
        local first = assert(semaphore(1):tryAcquire(5, 10))     -- as slot 1 is in use by now
        local plain = assert(other:getSemaphore("y", 1):tryAcquire(5, 10))
        support.fails("unsupported", assert(client:import(assert(plain:export()))):token())
        assert.is_true(first:release())
    end)

    it("is larger than all before it where servers have lost it on the way", function()
        local permit = assert(semaphore(1):tryAcquire(5, 10))
        local token, key = permit:token(), "redlock:{x:slots#1}:fence"
        local text = assert(permit:export())
        delete_counters(key, 3)
        local theirs = assert(other:import(text))
        assert.is_true(theirs:token() >= token)
        token = theirs:token()
        assert.is_true(theirs:release())
        assert.is_true(assert(semaphore(1):tryAcquire(5, 10)):token() > token)
    end)

    it("is believed by nobody who has only read it", function()
        local permit = assert(semaphore(1):tryAcquire(5, 30))
        local token = permit:token()
        local text, key = assert(permit:export()), "redlock:{x:slots#1}:fence"
        await_counter(1, key)
        local counter = cluster[1]:call("GET", key)
        for _, fence in ipairs { "", "0", ("9"):rep(15), ("9"):rep(16), ("9"):rep(40) } do
            local got, err = other:import(forged(text, { fence = fence }))
            assert.is_nil(got, fence)
            assert.is_true(err.code == "config" or err.code == "lost", fence)
        end
        local lock = other:getLock "x"
        assert.is_true(lock:tryLock(5, 10))
        support.fails("config", other:import(forged(assert(lock:export()), { fence = "7" })))
        -- One that is too large is found out when the permit is counted again: it is released.
        local wrong = forged(text, { fence = ("%.0f"):format(token + 1) })
        support.fails("lost", other:import(wrong))
        assert.equal(counter, cluster[1]:call("GET", key))
        support.fails("lost", other:import(text))
        assert.is_true(assert(semaphore(1):tryAcquire(5)):token() > token)
    end)

    it("is not had, and neither is the permit, while no majority tells it", function()
        local permit = assert(semaphore(1):tryAcquire(5, 30))
        local token = permit:token()
        local text, key = assert(permit:export()), "redlock:{x:slots#1}:fence"
        for i = 1, 3 do
            await_counter(i, key)
            cluster[i]:break_key(key)        -- whose counter is no text cannot count
        end
        support.fails("no_quorum", other:import(text))
        for i = 1, 3 do
            cluster[i]:call("RENAME", "away", key)
        end
        support.fails("lost", other:import(text))
        assert.is_true(assert(semaphore(1):tryAcquire(5)):token() > token)
    end)

    it("or there is no permit", function()
        local few = support.cluster(3)
        local alone = support.warm_client(few, { lease = 2 })
        local numbered = alone:getSemaphore("x", 1, { fenced = true })
        assert.is_true(assert(numbered:tryAcquire(5, 2)):release())
        for i = 1, 2 do                      -- who counts must write: their counter is no text
            few[i]:break_key "redlock:{x:slots#1}:fence"
        end
        support.fails("no_quorum", numbered:tryAcquire(0, 2))
        few[2]:call("DEL", "redlock:{x:slots#1}:fence")
        assert.is_true(assert(numbered:tryAcquire(5, 2)):release())     -- it was let go
        alone:close()
    end)

    it("is asked for by a flag", function()
        assert.has_error(function() client:getSemaphore("x", 1, { fenced = 1 }) end)
        assert.has_error(function() client:getSemaphore("x", 1, { tokens = true }) end)
    end)
end)

-- ---- histories -------------------------------------------------------------------

-- The first slot that two had at once, or token that is not above those of its slot that were known
-- when it was asked for.
local function wrong(history)
    local known, seen, asked = {}, {}, {}
    for _, line in ipairs(history) do
        if line.word == "ask" then
            asked[line.who] = { unpack(known, 1, 2) }
        elseif line.word == "token" then
            local slot, token = tonumber(line[4]), tonumber(line[5])
            local name = line[4] .. " " .. line[5]
            if seen[name] or token <= (asked[line.who][slot] or 0) then
                return ("%d got token %.0f of slot %d"):format(line.who, token, slot)
            end
            seen[name], known[slot] = true, math.max(known[slot] or 0, token)
        end
    end
    return torture.together(torture.intervals(history), function(a, b) return a == b end)
end

describe("a history of permits with tokens", function()
    local CODE = [[
        log "ask"
        local permit = client:getSemaphore("x", 2, { fenced = true }):tryAcquire(1,
            random(2) == 1 and 0.3 or nil)
        if not permit then return end
        local slot, token = permit:slot(), permit:token()
        if slot and token then
            log("token", slot, ("%.0f"):format(token))
            hold("slot" .. slot, permit)
        end
        permit:release()
    ]]

    it("has no token twice in a slot, and none that goes back, whatever fails", function()
        assert.is_nil(wrong(torture.run { code = CODE,
            enough = function(history) return torture.count(history, "token") > 50 end }))
    end)

    it("shows if a permit was not counted", function()
        local broken = { "scripts/slots/count.lua", "(counter or least) + 1", "(counter or least)" }
        torture.run { broken = { broken }, code = CODE, enough = wrong }
    end)
end)
