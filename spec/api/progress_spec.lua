-- Nobody waits for ever: readers and writers in all proportions, and candidates behind a leader
-- that was killed.
local support = require "spec.support"
local torture = require "spec.support.torture"

-- Processes that are always at it: those numbered up to WRITERS write, the others read. A hold
-- takes some milliseconds, so that without more ado there is hardly a moment without a reader.
local CODE = [[
    local pair = client:getReadWriteLock "x"
    local kind = who <= WRITERS and "write" or "read"
    local l = kind == "write" and pair:writeLock() or pair:readLock()
    local from = sys.now()
    log("call", kind, ("%.6f"):format(from))
    if l:tryLock(WAIT, 1) then
        log("got", kind, ("%.6f"):format(from))
        sys.sleep(0.004)
        l:unlock()
    else
        log("gave_up", kind)
    end
]]

-- @param wait  for how many seconds they do
-- @param broken  nil, or a wrong variant
local function crowd(writers, readers, wait, enough, broken)
    local code = CODE:gsub("WRITERS", writers):gsub("WAIT", wait)
    return torture.run { workers = writers + readers, fallback = 1, broken = { broken },
        code = code, enough = enough }
end

-- How often each process got in, and how many calls gave up.
local function count(history)
    local got, gave_up = {}, 0
    for _, line in ipairs(history) do
        got[line.who] = (got[line.who] or 0) + (line.word == "got" and 1 or 0)
        gave_up = gave_up + (line.word == "gave_up" and 1 or 0)
    end
    return got, gave_up
end

-- How many readers got in before a writer whose call had begun so many seconds before theirs.
local function overtaken(history, seconds)
    local waits, n = {}, 0
    for _, line in ipairs(history) do
        local kind, from = line[4], tonumber(line[5])
        if line.word == "call" then
            waits[line.who] = kind == "write" and from or nil
        else
            waits[line.who] = nil
            for _, writer in pairs(waits) do
                n = n + (line.word == "got" and kind == "read" and writer + seconds < from
                    and 1 or 0)
            end
        end
    end
    return n
end

describe("among readers and writers", function()
    after_each(support.cleanup)

    it("who was overtaken is counted", function()
        local function line(t, who, word, kind, from)
            return { tostring(t), tostring(who), word, kind, tostring(from), t = t, who = who,
                word = word }
        end
        local list = { line(1, 1, "call", "write", 1), line(3, 2, "call", "read", 3),
            line(4, 2, "got", "read", 3), line(5, 1, "got", "write", 1) }
        assert.equal(1, overtaken(list, 1))
        assert.equal(0, overtaken(list, 2.5))
        list[3], list[4] = line(4, 1, "got", "write", 1), line(5, 2, "got", "read", 3)
        assert.equal(0, overtaken(list, 1))
        assert.same({ { 1, 1 }, 0 }, { count(list) })
    end)

    for _, row in ipairs { { 1, 8 }, { 8, 1 }, { 4, 4 } } do
        local writers, readers = unpack(row)

        it(("everybody gets in: %d write, %d read"):format(writers, readers), function()
            local history = crowd(writers, readers, 60, function(history)
                local got = count(history)
                for who = 1, writers + readers do
                    if (got[who] or 0) < 10 then
                        return false
                    end
                end
                return true
            end)
            local _, gave_up = count(history)
            assert.equal(0, gave_up)
        end)
    end

    it("it shows if writers that wait do not close the door", function()
        crowd(1, 8, 2, function(history)
            local _, gave_up = count(history)
            return gave_up > 0 or overtaken(history, 1) > 0
        end, { "scripts/rw/write_acquire.lua", "if ARGV[3] ~= '0' then", "if false then" })
    end)

    it("it shows if a writer does not open the door", function()
        crowd(8, 1, 2, function(history)
            local _, gave_up = count(history)
            return gave_up > 0
        end, { "scripts/rw/write_release.lua", "redis.call('del', KEYS[2])\n", "\n" })
    end)
end)

describe("eight candidates", function()
    after_each(support.cleanup)

    it("have another leader, in a larger term, each time the leader is killed", function()
        local cluster = support.cluster(3)
        local observer = support.warm_client(cluster)
        local election = observer:getElection("x", { id = "observer" })
        local candidates = {}
        for i = 1, 8 do
            candidates[i] = support.child(cluster, "{ lease = 1 }", ([[
                local e = client:getElection("x", { id = "%d" })
                assert(e:campaign())
                io.read()
            ]]):format(i))
        end
        for _, p in ipairs(candidates) do
            assert.equal("ready", p:read_line(30))
        end
        local seen, last = {}, 0
        for _ = 1, 7 do
            local leader = support.eventually(function()
                local found = election:leader()
                return found and found.id and found.term > last and found
            end, 30)
            assert.is_nil(seen[leader.id], "a dead one leads: " .. leader.id)
            seen[leader.id], last = true, leader.term
            local p = candidates[tonumber(leader.id)]
            p:kill "KILL"
            p:wait(10)
        end
        observer:close()
    end)
end)
