-- Processes that take and hold locks while servers are replaced, and what they wrote down.
--
--   local w = workers.start { nodes = { uri, ... }, options = { max_lease = 4 }, holders = 2,
--       takers = 6 }
--   w:roll({ uri, ... }, 1, 4)    -- workers 1 to 4 open a client of these servers, one by one
--   local n = w:stop()            -- errors when two had a lock at a time, a token came twice, ...
local lua = require "spec.support.lua"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"
local torture = require "spec.support.torture"

local _M = {}
_M.__index = _M

local LIMIT = 120             -- seconds for whatever is awaited

-- Keeps locks of its own from the beginning to the end, or takes those that all takers share.
-- Writes down what it had, and when, by the clock of this machine.
local COMMON = [[
    local who, path = tonumber(arg[1]), arg[2]
    local sys, client_of = require "spec.support.sys", require "spec.support.client"
    local now = sys.now
    local file = assert(io.open(path, "w"))
    file:setvbuf "line"
    local function log(...)
        file:write(table.concat({ ... }, " "), "\n")
    end
    local function held(name, from, till)
        log("held", name, ("%.6f"):format(from), ("%.6f"):format(till))
    end
    local text
    local function changed()
        return sys.read_file(path .. ".conf") ~= text
    end
    local function over()
        return sys.read_file(path .. ".end") ~= nil
    end
    local function open()
        text = sys.read_file(path .. ".conf")
        local conf = assert(loadstring("return " .. text))()
        conf.options.on_event = function(e)
            if e.type == "fence_seeded" then log("lost", "fence_seeded", e.node) end
        end
        return client_of.warm_client(conf.nodes, conf.options)
    end
    local client = open()
]]

local HOLDER = COMMON .. [[
    local function take()
        local rw = client:getReadWriteLock("rw" .. who)
        local locks = { plain = client:getLock("plain" .. who),
            fenced = client:getFencedLock("fenced" .. who), write = rw:writeLock() }
        for name, l in pairs(locks) do
            assert(l:lock())
            l:onLost(function(_, reason) log("lost", name, reason) end)
        end
        return locks
    end
    local function expect(ok, what, err)
        log(ok and "kept" or "lost", what, tostring(err))
    end
    local function let_go(locks)
        local mine, err = locks.fenced:stillMine()
        expect(mine, "stillMine", err)
        local sequencer
        sequencer, err = locks.fenced:sequencer()
        expect(sequencer and client:checkSequencer(sequencer), "sequencer", err)
        for name, l in pairs(locks) do
            local ok, why = l:unlock()
            expect(ok, name, why)
        end
    end
    print "ready"
    repeat
        local locks, from = take(), now()
        local last = from
        repeat
            local at = now()
            for name, l in pairs(locks) do
                if not l:isValid() then
                    log("lost", name, ("after %.3f s without a look"):format(at - last))
                end
            end
            last = at
            sys.sleep(0.005)
        until changed() or over()
        for name in pairs(locks) do
            held(name .. who, from, last)
        end
        let_go(locks)
        if changed() then
            client:close()
            client = open()
            print "rolled"
        end
    until over()
    client:close()
    print "done"
]]

local TAKER = COMMON .. [[
    local KINDS = {
        plain = function() return client:getLock "plain" end,
        fenced = function() return client:getFencedLock "fenced" end,
        read = function() return client:getReadWriteLock("rw"):readLock() end,
        write = function() return client:getReadWriteLock("rw"):writeLock() end,
    }
    local NAMES = { "plain", "fenced", "read", "write", "permit" }
    -- As what it is held; or nil and an error.
    local function take(name)
        if name == "permit" then
            local permit, err = client:getSemaphore("permits", 2):tryAcquire(60)
            return permit, permit and "permit" .. permit:slot() or err
        end
        local lock = KINDS[name]()
        local ok, token = lock:tryLock(60)
        return ok and lock or nil, ok and name or token, name == "fenced" and token or nil
    end
    print "ready"
    while not over() do
        local name = NAMES[math.random(#NAMES)]
        local began = now()
        local lock, what, token = take(name)
        if lock then
            local from = now()
            log("took", name, ("%.3f"):format(from - began), token and ("%.0f"):format(token) or "")
            sys.sleep(math.random(0, 80) / 1000)
            local till = now()
            if name == "permit" or lock:isValid() then held(what, from, till) end
            local release = name == "permit" and lock.release or lock.unlock
            release(lock)
        else
            log("failed", name, tostring(what))
        end
        -- What holders hold is not to be had, but between two clients of theirs.
        local other = client:getLock("plain" .. math.random(2))
        if other:tryLock(0) then
            local from = now()
            sys.sleep(0.001)
            local till = now()
            if other:isValid() then held(other.name, from, till) end
            other:unlock()
        end
        if changed() then
            client:close()
            client = open()
            print "rolled"
        end
    end
    client:close()
    print "done"
]]

function _M:configure(nodes, who)
    local uris, options = {}, {}
    for i, uri in ipairs(nodes) do
        uris[i] = ("%q"):format(uri)
    end
    for name, value in pairs(self.options) do
        options[#options + 1] = ("%s = %s"):format(name, type(value) == "string"
            and ("%q"):format(value) or tostring(value))
    end
    local path = ("%s/%d.conf"):format(self.dir, who)
    sys.write_file(path .. ".new", ("{ nodes = { %s }, options = { %s } }"):format(
        table.concat(uris, ", "), table.concat(options, ", ")))
    assert(os.rename(path .. ".new", path))
end

--- Starts holders, each of which keeps locks of its own, and takers, who share others.
--- @param opts  nodes, options (of their clients: a table of numbers and texts), holders, takers
function _M.start(opts)
    local self = setmetatable({ dir = scope.tmpdir(), holders = opts.holders,
        options = opts.options, n = opts.holders + opts.takers }, _M)
    for who = 1, self.n do
        self:configure(opts.nodes, who)
        self[who] = lua.run(who <= self.holders and HOLDER or TAKER, { args = { who,
            self.dir .. "/" .. who } })
        assert(self[who]:read_line(LIMIT) == "ready")
    end
    return self
end

--- Some of them go on with a client of other servers, one after the other.
function _M:roll(nodes, from, to)
    for who = from, to do
        self:configure(nodes, who)
        local line = self[who]:read_line(LIMIT)
        assert(line == "rolled", "a worker has failed: " .. tostring(line))
    end
end

function _M:end_those(from, to)
    for who = from, to do
        sys.write_file(self.dir .. "/" .. who .. ".end", "")
    end
    for who = from, to do
        local line = self[who]:read_line(LIMIT)
        assert(line == "done", "a worker has failed: " .. tostring(line))
        self[who]:wait(20)
    end
end

local function excludes(a, b)
    return a == b and a ~= "read" or a == "read" and b == "write" or a == "write" and b == "read"
end

-- Two had something at the same time; or nil.
local function together(logs)
    local intervals = {}
    for who, log in ipairs(logs) do
        for _, words in ipairs(log) do
            if words[1] == "held" then
                intervals[#intervals + 1] = { what = words[2], who = who,
                    from = tonumber(words[3]), to = tonumber(words[4]) }
            end
        end
    end
    table.sort(intervals, function(a, b) return a.from < b.from end)
    return torture.together(intervals, excludes)
end

-- Tokens that did not grow with the time at which they were given; or nil. How many there were.
local function shrinks(logs)
    local list = {}
    for _, log in ipairs(logs) do
        local token
        for _, words in ipairs(log) do
            if words[1] == "took" and words[4] then
                token = tonumber(words[4])
            elseif words[1] == "held" and words[2] == "fenced" and token then
                list[#list + 1] = { at = tonumber(words[3]), token = token }
                token = nil
            end
        end
    end
    table.sort(list, function(a, b) return a.at < b.at end)
    for i = 2, #list do
        if list[i].token <= list[i - 1].token then
            return ("%.0f after %.0f"):format(list[i].token, list[i - 1].token), #list
        end
    end
    return nil, #list
end

--- Ends all of them, first the takers: what holders hold is not to be had before they let go.
--- @return how often they took a lock, the longest wait in seconds, and how many tokens were seen
--- to grow; an error of the Lua kind when somebody lost a lock, could not get one, got what another
--- had, a token came twice, or tokens had to be guessed
function _M:stop()
    self:end_those(self.holders + 1, self.n)
    self:end_those(1, self.holders)
    local logs, tokens, n = {}, {}, { took = 0, kept = 0, wait = 0 }
    for who = 1, self.n do
        logs[who] = sys.words_of(self.dir .. "/" .. who)
        for _, words in ipairs(logs[who]) do
            assert(words[1] ~= "lost" and words[1] ~= "failed", words.line)
            n[words[1]] = (n[words[1]] or 0) + 1
            n.wait = words[1] == "took" and math.max(n.wait, tonumber(words[3])) or n.wait
            local token = words[1] == "took" and words[4]
            assert(not token or not tokens[token], "a token twice: " .. words.line)
            tokens[token or 0] = true
        end
    end
    local twice = together(logs)
    assert(not twice, twice)
    assert(n.kept >= 5 * self.holders, "a holder wrote too little")
    local shrunk, grown = shrinks(logs)
    assert(not shrunk, shrunk)
    return { took = n.took, wait = n.wait, tokens = grown }
end

return _M
