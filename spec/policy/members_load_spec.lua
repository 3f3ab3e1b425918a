-- All servers of a list are replaced, one after the other, while processes take and hold locks.
-- Runs alone: watchdogs of eight processes renew leases of a few seconds.
local lua = require "spec.support.lua"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"
local sys = require "spec.support.sys"
local torture = require "spec.support.torture"

-- A slow machine renews a lease of that length, too.
local MAX_LEASE = 4

-- Keeps a plain and a fenced lock of its own from the beginning to the end, or takes what all
-- others take; says what it had, and when, by the clock of this machine.
local WORKER = [[
    local who, path, holds = tonumber(arg[1]), arg[2], arg[3] == "holds"
    local support = require "spec.support"
    local now = support.now
    local file = assert(io.open(path, "w"))
    file:setvbuf "line"
    local function log(...)
        file:write(table.concat({ ... }, " "), "\n")
    end
    local client = support.warm_client({ NODES }, OPTIONS)
    local function held(name, from, till)
        log("held", name, ("%.6f"):format(from), ("%.6f"):format(till))
    end
    local ends = false
    local function over()
        ends = ends or io.open(path .. ".end") ~= nil
        return ends
    end
    if holds then
        local plain, fenced = client:getLock("plain" .. who), client:getFencedLock("fenced" .. who)
        assert(plain:lock())
        assert(fenced:lock())
        local from = now()
        print "ready"
        local last = from
        while not over() do
            local at = now()
            if not (plain:isValid() and fenced:isValid()) then
                log("lost", tostring(plain), tostring(fenced))
                break
            end
            last = at
            support.sleep(0.005)
        end
        held("plain" .. who, from, last)
        held("fenced" .. who, from, last)
        local ok, err = fenced:stillMine()
        log(ok and "kept" or "lost", tostring(err))
        local current
        current, err = client:checkSequencer(fenced:sequencer())
        log(current and "current" or "lost", tostring(err))
        ok, err = plain:unlock()
        log(ok and "kept" or "lost", tostring(err))
        ok, err = fenced:unlock()
        log(ok and "kept" or "lost", tostring(err))
    else
        print "ready"
        while not over() do
            local name = math.random(2) == 1 and "plain" or "fenced"
            local l = name == "plain" and client:getLock(name) or client:getFencedLock(name)
            local began = now()
            local ok, token = l:tryLock(60)
            if ok then
                local from = now()
                log("took", name, ("%.3f"):format(from - began),
                    name == "fenced" and ("%.0f"):format(token) or "")
                support.sleep(math.random(0, 8) / 1000)
                local till = now()
                if l:isValid() then held(name, from, till) end
                l:unlock()
            else
                log("failed", tostring(token))
            end
            -- What others hold is not to be had.
            local other = "plain" .. math.random(2)
            local at = now()
            if client:getLock(other):tryLock(0) then
                held(other, at, now())
                log("stole", other)
                client:getLock(other):unlock()
            end
        end
    end
    client:close()
    print "done"
]]

local function lines(path)
    local list = {}
    for line in io.lines(path) do
        local words = {}
        for word in line:gmatch "%S+" do
            words[#words + 1] = word
        end
        words.word, words.line = words[1], line
        list[#list + 1] = words
    end
    return list
end

describe("a list of servers under load", function()
    local dir, workers
    local HOLDERS, TAKERS = 2, 6

    before_each(function() dir, workers = support.tmpdir(), {} end)
    after_each(support.cleanup)

    local function start(nodes, options)
        for who = 1, HOLDERS + TAKERS do
            local path = dir .. "/" .. who
            local code = WORKER:gsub("%u%u%u%u+S", { NODES = nodes, OPTIONS = options })
            workers[who] = lua.run(code,
                { args = { who, path, who <= HOLDERS and "holds" or "takes" } })
            assert(workers[who]:read_line(60) == "ready")
        end
    end

    local function end_those(from, to)
        for who = from, to do
            sys.write_file(dir .. "/" .. who .. ".end", "")
        end
        for who = from, to do
            assert(workers[who]:read_line(120) == "done", "a worker has failed")
            workers[who]:wait(20)
        end
    end

    -- What holders hold is not to be had before they let go.
    local function stop()
        end_those(HOLDERS + 1, HOLDERS + TAKERS)
        end_those(1, HOLDERS)
        local logs = {}
        for who in ipairs(workers) do
            logs[who] = lines(dir .. "/" .. who)
        end
        return logs
    end

    -- What the processes say, against what must be so.
    local function judge(logs)
        local intervals, tokens, n = {}, {}, { took = 0, kept = 0, current = 0 }
        for who, log in ipairs(logs) do
            for _, words in ipairs(log) do
                assert(words.word ~= "lost" and words.word ~= "stole" and words.word ~= "failed",
                    words.line)
                n[words.word] = (n[words.word] or 0) + 1
                if words.word == "held" then
                    intervals[#intervals + 1] = { what = words[2], who = who,
                        from = tonumber(words[3]), to = tonumber(words[4]) }
                elseif words.word == "took" and words[4] then
                    assert(not tokens[words[4]], "a token twice: " .. words.line)
                    tokens[words[4]] = true
                end
            end
        end
        table.sort(intervals, function(a, b) return a.from < b.from end)
        assert.is_nil(torture.together(intervals, function(a, b) return a == b end))
        assert.equal(3 * HOLDERS, n.kept)
        assert.equal(HOLDERS, n.current)
        return n
    end

    -- Tokens grow with the time at which they were given.
    local function grows(logs)
        local list = {}
        for _, log in ipairs(logs) do
            local token
            for _, words in ipairs(log) do
                if words.word == "took" and words[4] then
                    token = tonumber(words[4])
                elseif words.word == "held" and words[2] == "fenced" and token then
                    list[#list + 1] = { at = tonumber(words[3]), token = token }
                    token = nil
                end
            end
        end
        table.sort(list, function(a, b) return a.at < b.at end)
        for i = 2, #list do
            assert.is_true(list[i].token > list[i - 1].token)
        end
        return #list
    end

    for _, size in ipairs { 3, 5 } do
        it(("of %d is replaced by another one, server by server: no two holders, no token twice, "
            .. "and nothing lost"):format(size), function()
            local cluster = support.cluster(2 * size, { new = true })
            local first, uris = {}, {}
            for i = 1, size do
                first[i], uris[i] = cluster[i], ("%q"):format(cluster[i].uri)
            end
            local options = quarantine.options { max_lease = MAX_LEASE, lease = MAX_LEASE,
                timeout = 1, connect_timeout = 5, patience = 60 }
            local changer = support.warm_client(first, options)
            assert(changer:init())
            assert(changer:members { online = true })
            start(table.concat(uris, ","), ("{ max_lease = %d, lease = %d, timeout = 1, "
                .. "connect_timeout = 5, patience = 60, fallback = 0.1 }"):format(MAX_LEASE,
                MAX_LEASE))
            for i = 1, size do
                local found = assert(changer:members { remove = cluster[i].uri,
                    add = cluster[i + size].uri })
                assert.equal(4 + 2 * i, found.epoch)
                cluster[i]:kill()
            end
            local logs = stop()
            local n = judge(logs)
            assert.is_true(n.took > 50)
            assert.is_true(grows(logs) > 10)
            local left = {}
            for i, member in ipairs(assert(changer:members()).list) do
                assert.is_true(member.votes)
                left[i] = member.node
            end
            local right = {}
            for i = 1, size do
                right[i] = cluster[i + size].uri
            end
            table.sort(left)
            table.sort(right)
            assert.same(right, left)
        end)
    end
end)
