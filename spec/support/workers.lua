-- Processes that take and hold locks while servers, or the list of them, change; and what they
-- wrote down of it.
--
--   local w = workers.start { nodes = { uri, ... }, options = "{ max_lease = 4 }", holders = 2,
--       takers = 6 }
--   local n = w:stop()    -- errors when two had a lock at a time, a token came twice, ...
local lua = require "spec.support.lua"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"
local torture = require "spec.support.torture"

local _M = {}
_M.__index = _M

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
        local reasons = {}
        for _, l in ipairs { plain, fenced } do
            l:onLost(function(_, reason) reasons[#reasons + 1] = reason end)
        end
        print "ready"
        local last = from
        while not over() do
            local at = now()
            if not (plain:isValid() and fenced:isValid()) then
                log("lost", table.concat(reasons, " and "), ("behind %.3f s,"):format(at - last),
                    tostring(client:check()))
                break
            end
            last = at
            support.sleep(0.005)
        end
        held("plain" .. who, from, last)
        held("fenced" .. who, from, last)
        local ok, err = fenced:stillMine()
        log(ok and "kept" or "lost", tostring(err))
        local text, current
        text, err = fenced:sequencer()
        if text then
            current, err = client:checkSequencer(text)
        end
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

--- Starts holders, each of which keeps a plain and a fenced lock of its own, and takers, who share
--- two.
function _M.start(opts)
    local self = setmetatable({ dir = scope.tmpdir(), holders = opts.holders,
        n = opts.holders + opts.takers }, _M)
    local uris = {}
    for i, uri in ipairs(opts.nodes) do
        uris[i] = ("%q"):format(uri)
    end
    local code = WORKER:gsub("%u%u%u%u+S", { NODES = table.concat(uris, ","),
        OPTIONS = opts.options })
    for who = 1, self.n do
        self[who] = lua.run(code, { args = { who, self.dir .. "/" .. who,
            who <= self.holders and "holds" or "takes" } })
        assert(self[who]:read_line(60) == "ready")
    end
    return self
end

function _M:end_those(from, to)
    for who = from, to do
        sys.write_file(self.dir .. "/" .. who .. ".end", "")
    end
    for who = from, to do
        assert(self[who]:read_line(120) == "done", "a worker has failed")
        self[who]:wait(20)
    end
end

-- Two had something at the same time; or nil.
local function together(logs)
    local intervals = {}
    for who, log in ipairs(logs) do
        for _, words in ipairs(log) do
            if words.word == "held" then
                intervals[#intervals + 1] = { what = words[2], who = who,
                    from = tonumber(words[3]), to = tonumber(words[4]) }
            end
        end
    end
    table.sort(intervals, function(a, b) return a.from < b.from end)
    return torture.together(intervals, function(a, b) return a == b end)
end

-- Tokens that did not grow with the time at which they were given; or nil. How many there were.
local function shrinks(logs)
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
        if list[i].token <= list[i - 1].token then
            return ("%.0f after %.0f"):format(list[i].token, list[i - 1].token), #list
        end
    end
    return nil, #list
end

--- Ends all of them, first the takers: what holders hold is not to be had before they let go.
--- @return how often they took a lock, and how many tokens were seen to grow; an error of the Lua
--- kind when somebody lost a lock, could not get one, got what another had, or a token came twice
function _M:stop()
    self:end_those(self.holders + 1, self.n)
    self:end_those(1, self.holders)
    local logs, tokens, n = {}, {}, {}
    for who = 1, self.n do
        logs[who] = lines(self.dir .. "/" .. who)
        for _, words in ipairs(logs[who]) do
            assert(words.word ~= "lost" and words.word ~= "stole" and words.word ~= "failed",
                words.line)
            n[words.word] = (n[words.word] or 0) + 1
            local token = words.word == "took" and words[4]
            assert(not token or not tokens[token], "a token twice: " .. words.line)
            tokens[token or 0] = true
        end
    end
    local twice = together(logs)
    assert(not twice, twice)
    assert(n.kept == 3 * self.holders and n.current == self.holders, "a holder wrote too little")
    local shrunk, grown = shrinks(logs)
    assert(not shrunk, shrunk)
    return { took = n.took or 0, tokens = grown }
end

return _M
