-- Deadlocks across processes: the option deadlocks.
local support = require "spec.support"

-- A process that holds names, and asks for one. It prints "held", reads a line, asks, and prints
-- what became of it, and of its events.
local PROGRAM = [[
    local redlock = require "redlock"
    local nodes, opts = {}, loadstring(arg[1])()
    for uri in arg[2]:gmatch "%S+" do nodes[#nodes + 1] = uri end
    opts.nodes, opts.lease = nodes, opts.lease or 3
    opts.on_event = function(e)
        if e.type == "deadlock" then
            local chain = {}
            for i, one in ipairs(e.chain) do chain[i] = one.name .. "=" .. tostring(one.label) end
            print(("event %s %s %s"):format(e.name, tostring(e.ended), table.concat(chain, " ")))
        end
    end
    local client = redlock.new(opts)
    GETTERS = {
        l = function(n) return client:getLock(n) end,
        f = function(n) return client:getFencedLock(n) end,
        q = function(n) return client:getFairLock(n) end,
        r = function(n) return client:getReadWriteLock(n):readLock() end,
        w = function(n) return client:getReadWriteLock(n):writeLock() end,
        m = function(n)
            local names = {}
            for one in n:gmatch "[^+]+" do names[#names + 1] = one end
            return client:getMultiLock(names)
        end,
    }
    local function get(text) return GETTERS[text:sub(1, 1)](text:sub(3)) end
    for text in arg[3]:gmatch "%S+" do assert(get(text):tryLock(5)) end
    print "held"
    io.read "*l"
    local lock = get(arg[4])
    local ok, err = lock:tryLock(tonumber(arg[5] or 30))
    print(ok and "got" or err.code)
    if not ok then print(err.message) end
    io.read "*l"
    client:close()
]]

describe("processes that block each other", function()
    local cluster, running

    setup(function() cluster = support.cluster(3) end)
    before_each(function()
        cluster:flush()
        running = {}
    end)
    after_each(function()
        for _, p in ipairs(running) do p:kill(9) p:wait(20) end
        cluster:each(function(s) if s.frozen then s:thaw() end end)
    end)
    teardown(support.cleanup)

    local function waits()
        local n = 0
        cluster:each(function(s) n = n + #s:call("KEYS", "redlock:{*}:waits") end)
        return n
    end

    -- One that holds names, as "l:a w:b".
    local function process(label, how, held, wanted, wait)
        local opts = ("return { label = %q, deadlocks = %s }"):format(label,
            how and ("%q"):format(how) or "false")
        local p = support.lua(PROGRAM, { args = { opts, table.concat(cluster:uris(), " "), held,
            wanted, tostring(wait or 30) } })
        running[#running + 1] = p
        assert.equal("held", p:read_line(20))
        return p
    end

    local function go(...)
        for _, p in ipairs { ... } do p:write "\n" end
    end

    -- What they say who asked, by label, in the order of the list: events, and what became of it.
    local function outcome(p)
        local events, line = {}, p:read_line(60)
        while line and line:find "^event" do
            events[#events + 1] = line
            line = p:read_line(60)
        end
        return line, events, line ~= "got" and p:read_line(20) or nil
    end

    -- The one of several that says that its wait ends.
    local function first_to_end(...)
        local all, ended = { ... }, nil
        support.eventually(function()
            for _, p in ipairs(all) do
                local line = p:read_line(0.1)
                ended = line and line:find "^event %S+ true" and p or ended
            end
            return ended
        end, 60)
        return ended
    end

    -- Lets one go on when the other is told; whoever is not ends well.
    local function one_of_two_ends(a, b)
        go(a, b)
        local ended = first_to_end(a, b)
        local other = ended == a and b or a
        local code, _, message = outcome(ended)
        assert.equal("deadlock", code)
        go(ended)                                    -- it closes its client
        local got, events = outcome(other)
        assert.equal("got", got)
        assert.is_true(#events <= 1)
        go(other)
        assert.equal(0, ended:wait(20))
        assert.equal(0, other:wait(20))
        assert.equal(0, waits())
        return message
    end

    it("are found, and one of them ends its wait", function()
        local message = one_of_two_ends(process("A", "end", "l:a", "l:b"),
            process("B", "end", "l:b", "l:a"))
        assert.matches("'[ab]' is held by [AB], who waits for a lock: '[ab]' is held by this one",
            message)
    end)

    it("are found while a server hangs", function()
        local a, b = process("A", "end", "l:a", "l:b"), process("B", "end", "l:b", "l:a")
        cluster:each(function(s)         -- else a hold may have the one that hangs in its majority
            support.eventually(function() return s:call("EXISTS", "a", "b") == 2 end)
        end)
        cluster[2]:freeze()
        go(a, b)
        assert.is_truthy(first_to_end(a, b))
    end)

    it("say nothing where the option is off", function()
        local a, b = process("A", nil, "l:a", "l:b", 3), process("B", nil, "l:b", "l:a", 3)
        local most = 0
        go(a, b)
        local from = support.now()
        while support.now() - from < 2.5 do
            most = most + waits()
        end
        assert.equal(0, most)
        assert.equal("held", (outcome(a)))
    end)
end)
