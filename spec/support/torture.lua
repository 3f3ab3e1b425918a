-- Processes that use one object at a time when servers, connections and processes fail, and what
-- they wrote down of it.
--
--   torture.run { code = "...", enough = function(history) ... end }
--
-- is a list of { t, who, word, ... }, by time. It goes on until enough is written, however fast the
-- machine is.
--
-- code: Lua text, called again and again by each worker, with `client`, `who` (a number), `random`
-- and log(word, ...), which writes a line with the time; hold(log_words, lock) keeps what has
-- remaining() for a moment and writes "held": from when to when that was seen to be valid.
local lua = require "spec.support.lua"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

-- How many faults there are at least; how many seconds without faults follow, for what was under
-- way; and after how many seconds there must be enough.
local STRIKES, CALM, LIMIT = os.getenv "NIGHTLY" and 60 or 12, 1, 120

local WORKER = [[
    local who, path, seed, ends = tonumber(arg[1]), arg[2], tonumber(arg[3]), arg[4]
    local sys = require "spec.support.sys"
    math.randomseed(seed)
    local file = assert(io.open(path, "a"))
    file:setvbuf "line"
    local client = require("redlock").new { nodes = { NODES }, lease = 0.4, max_lease = 1,
        timeout = 0.15, connect_timeout = 0.3, patience = 30, fallback = FALLBACK,
        restart_guard = true, cluster = "spec" }
    local random = math.random
    local function log(...)
        local words = { ("%.6f"):format(sys.now()), tostring(who), ... }
        for i = 1, #words do words[i] = tostring(words[i]) end
        file:write(table.concat(words, " "), "\n")
    end
    local function hold(what, lock)
        local from = sys.now()
        if lock:remaining() <= 0 then return end
        local last, stop = from, from + random(0, 12) / 1000
        log("in", what)
        repeat
            local now = sys.now()
            if lock:remaining() <= 0 then break end
            last = now
            sys.sleep(0.001)
        until sys.now() > stop
        log("held", what, ("%.6f"):format(from), ("%.6f"):format(last))
    end
    local function step()
        STEP
    end
    print "ready"
    while not sys.read_file(ends) do step() end
    client:close()
    print "done"
]]

local function parse(path)
    local list = {}
    for _, words in ipairs(sys.words_of(path)) do
        if tonumber(words[1]) and words[3] then
            words.t, words.who, words.word = tonumber(words[1]), tonumber(words[2]), words[3]
            list[#list + 1] = words
        end
    end
    table.sort(list, function(a, b) return a.t < b.t end)
    return list
end

-- What strikes next: a function of nothing, or nil.
local function strike(self)
    local i, random = math.random(#self.cluster), math.random
    local server, gap, kind = self.cluster[i], self.proxies[i], random(5)
    if kind == 1 and sys.now() > self.restart_again then      -- a majority stays admitted
        self.restart_again = sys.now() + 2.6
        server:kill()
        sys.sleep(random() * 0.2)
        server:start()
    elseif kind == 2 then
        server:freeze()
        sys.sleep(random() * 0.3)
        server:thaw()
    elseif kind == 3 then
        gap:cut()
    elseif kind == 4 then
        gap:hold("both", true)
        sys.sleep(random() * 0.3)
        gap:hold("both", false)
    else
        local victim = random(#self.workers)
        self.workers[victim]:kill "KILL"
        self.workers[victim]:wait(20)
        self:start(victim)
    end
end

local Run = {}
Run.__index = Run

function Run:start(k)
    self.count = self.count + 1
    local args = { self.count, self.path, math.random(2 ^ 30), self.ends }
    local p = lua.run(self.code, { env = self.env, args = args })
    assert(p:read_line(LIMIT) == "ready")
    self.workers[k] = p
end

-- A folder with wrong copies of files, which are found before the right ones.
-- @param broken  { { file of lua/redlock, what it says, what it is to say instead }, ... }
local function wrong_copies(broken)
    local dir = scope.tmpdir()
    for _, change in ipairs(broken) do
        local file, from, to = unpack(change)
        local text = sys.read_file("lua/redlock/" .. file)
        local at, last = text:find(from, 1, true)
        assert(at, file .. " does not say: " .. from)
        assert(sys.sh(("mkdir -p %s/redlock/%s"):format(dir, file:match "^(.*)/")))
        text = text:sub(1, at - 1) .. to .. text:sub(last + 1)
        sys.write_file(dir .. "/redlock/" .. file, text)
    end
    return { LUA_PATH = dir .. "/?.lua;" .. lua.env().LUA_PATH }
end

-- Faults, until there were some and enough is written.
local function trouble(self, opts)
    local began, strikes = sys.now(), opts.broken and STRIKES or 0
    repeat
        sys.sleep(math.random() * 0.25)
        if not opts.broken then
            strike(self)
            strikes = strikes + 1
        end
        local seconds = sys.now() - began
        local done = strikes >= STRIKES and seconds >= (opts.seconds or 0)
            and opts.enough(parse(self.path))
        assert(done or seconds < LIMIT + (opts.seconds or 0), "too little was written")
    until done
    sys.sleep(opts.broken and 0 or CALM)
end

--- @param opts  code; enough (of the history so far: whether it may end); seconds (at least: 0),
--   servers (5), workers (5), fallback (0.1); broken, as wrong_copies(), and then without faults
-- @return the history, a list of lines: each its words, with t, who and word
function _M.run(opts)
    local self = setmetatable({ workers = {}, count = 0, restart_again = 0,
        path = scope.tmpdir() .. "/history" }, Run)
    self.cluster = redis.cluster(opts.servers or 5, { new = true })
    self.proxies = {}
    local uris = {}
    for i, server in ipairs(self.cluster) do
        self.proxies[i] = proxy.proxy(server.port)
        uris[i] = ("%q"):format(self.proxies[i].uri)
    end
    local admin = require("redlock").new { nodes = self.cluster:uris(), max_lease = 1, lease = 0.4,
        restart_guard = true, cluster = "spec" }
    assert(admin:init { force = true })
    admin:close()
    self.env = opts.broken and wrong_copies(opts.broken)
    local texts = { NODES = table.concat(uris, ", "), STEP = opts.code,
        FALLBACK = tostring(opts.fallback or 0.1) }
    self.code = WORKER:gsub("%u%u%u+", texts)
    self.ends = self.path .. ".ends"
    for k = 1, opts.workers or 5 do
        self:start(k)
    end
    trouble(self, opts)
    sys.write_file(self.ends, "")
    for _, p in ipairs(self.workers) do
        assert(p:read_line(LIMIT) == "done", "a worker has failed")
        p:wait(LIMIT)
    end
    return parse(self.path)
end

-- ---- what must be so -------------------------------------------------------------

--- How many lines have this word.
function _M.count(history, word)
    local n = 0
    for _, line in ipairs(history) do
        n = n + (line.word == word and 1 or 0)
    end
    return n
end

--- The "held" lines of a history as { what, from, to, who }.
function _M.intervals(history)
    local list = {}
    for _, line in ipairs(history) do
        if line.word == "held" then
            list[#list + 1] = { what = line[4], from = tonumber(line[5]), to = tonumber(line[6]),
                who = line.who }
        end
    end
    table.sort(list, function(a, b) return a.from < b.from end)
    return list
end

--- The first two intervals that were there together and must not be.
-- @param conflict  function(what, what): whether they must not
-- @return nil; or a sentence
function _M.together(intervals, conflict)
    local open = {}
    for _, b in ipairs(intervals) do
        for i = #open, 1, -1 do
            local a = open[i]
            if a.to <= b.from then
                table.remove(open, i)
            elseif conflict(a.what, b.what) and b.to > b.from then
                return ("%d had %s from %.6f to %.6f, and %d had %s from %.6f to %.6f"):format(
                    a.who, a.what, a.from, a.to, b.who, b.what, b.from, b.to)
            end
        end
        open[#open + 1] = b
    end
    return nil
end

return _M
