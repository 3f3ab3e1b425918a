-- What commands must say and how they must end, by what is true of the servers.
local causes = require "spec.judge.causes"
local stage = require "spec.judge.stage"
local sys = require "spec.support.sys"
local truth = require "spec.judge.truth"

local _M = {}

local FAILED = 125
local GRACE = 0.3             -- seconds between the lines of one message
local SLACK = 10              -- seconds that a command may take longer beside load

local PROGRAM = [[
local metrics = require("redlock.metrics").new()
local client = require "redlock".from_environment { metrics = metrics }
client:connect(0.3)
local lock = client:getLock "judge:program"
local ok, err = lock:tryLock(0)
print(ok and "tryLock: had" or "tryLock: " .. tostring(err))
if ok then lock:unlock() end
print(assert(client:check()))
local votes = 0
for _, vote in metrics:text():gmatch "\nredlock_server_voting(%b{}) (%d)" do
    votes = votes + vote
end
print("metrics: " .. votes)
os.exit(ok and 0 or 1)]]

-- How each must end. of: what is true; of.cause; of.q a majority.
local function held_if(field)
    return function(of)
        return (of[field] >= of.q or of.cause.passes) and 0 or FAILED
    end
end

-- The commands that a verb needs beside those of its votes.
local LISTS = { "getrange", "pttl", "time", "scan", "type" }
local SHOWS = { "getrange", "pttl", "type" }

-- How a verb ends that looks at servers. field: what is true of those that it asks.
local function looked(status, field, commands)
    return function(of)
        local n = 0
        for i = 1, of.n do
            local can = of[i][field]
            for _, command in ipairs(commands) do
                can = can and not of[i].denied[command]
            end
            n = n + (can and 1 or 0)
        end
        n = of.cause.deaf and n - of.k or n
        return n >= of.q and status or FAILED
    end
end

local function checked(of)
    return not of.cause.says and 0 or of.fenced < of.q and 2 or 1
end

-- Name, words, status, and for how many seconds it waits where it cannot do what it should.
local VERBS = {
    { "run", { "run", "judge:run", "--no-wait", "--", "true" }, held_if "granted_fenced", 5 },
    { "run --plain", { "run", "judge:plain", "--no-wait", "--plain", "--", "true" },
        held_if "granted", 5 },
    { "lead", { "lead", "judge:lead", "--", "true" }, function(of)
        return (of.granted_fenced >= of.q or of.cause.passes) and 0 or 143
    end, 6 },
    { "check", { "check" }, checked, 5 },
    { "status", { "status", "judge:status" }, looked(3, "looks", SHOWS), 5 },
    { "ls", { "ls" }, looked(0, "answers", LISTS), 5 },
    { "wait", { "wait", "judge:wait" }, function(of)
        return of.cause.passes and 0 or looked(0, "looks", SHOWS)(of)
    end, 12 },
    { "unlock", { "unlock", "--force", "judge:unlock" }, looked(3, "reaches", { "type" }), 5 },
    { "top", { "top", "--count", "1" }, looked(0, "answers", LISTS), 5 },
    { "program", PROGRAM, function(of) return of.granted >= of.q and 0 or 1 end, 5 },
}

local FIELDS = { "plain", "fenced", "granted", "granted_fenced", "counted" }

-- What is true of a stage, in numbers; and of each server.
local function look(self, cause)
    local of = { n = self.n, k = self.k, q = math.floor(self.n / 2) + 1, cause = cause,
        denied = {} }
    local seen = {}
    for i = 1, self.n do
        local its = truth.of(self, self[i].uri)
        local again = seen[its.run_id]
        of[i] = again and {} or its
        its.denied = its.denied or {}
        for _, field in ipairs(FIELDS) do        -- one of another list keeps all from voting
            local counts = of[i][field] and not (cause.refuses and self.n > 1)
            of[field] = (of[field] or 0) + (counts and 1 or 0)
        end
        for word in pairs(its.denied) do
            of.denied[word] = true
        end
        seen[its.run_id or ""] = its.run_id ~= nil
    end
    return of
end

-- ---- words -----------------------------------------------------------------------

-- The patterns of a cause. check: in `check`, which says more than others.
local function patterns(cause, check)
    local list = {}
    for _, some in ipairs { cause.says or {}, not check and cause.briefly or {} } do
        for _, pattern in ipairs(type(some) == "table" and some or { some }) do
            list[#list + 1] = pattern
        end
    end
    return list
end

local function says(cause, text, check)
    for _, pattern in ipairs(patterns(cause, check)) do
        if text:find(pattern) then
            return true
        end
    end
end

-- Splits a text, by the addresses in it, into what it says of each server; [0]: of none.
local function by_server(self, text)
    local parts = { [0] = "" }
    for line in text:lower():gmatch "[^\n]+" do
        local now, at = 0, 1
        while at do
            local first, last, whose = nil, #line, nil
            for i = 1, self.n do
                local from, to = line:find(self[i].uri, at, true)
                if from and not line:find("^%d", to + 1) and (not first or from < first) then
                    first, last, whose = from, to, i
                end
            end
            parts[now] = (parts[now] or "") .. line:sub(at, first and first - 1 or nil) .. "\n"
            now, at = whose, first and last + 1
        end
    end
    return parts
end

-- The name of another cause that a text has words of; nil: there is none. check: as above.
local function other(own, text, check)
    for _, pattern in ipairs(patterns(own, check)) do
        text = text:gsub(pattern, "\1")
    end
    for name, cause in pairs(causes) do
        local its = cause == own or name == own.also or cause.command or cause.rights
        if not its and says(cause, text, true) then
            return name
        end
    end
end

-- The commands that a text says the user needs, or the server lacks: a set of words.
local function commands(text)
    local list = {}
    for _, pattern in ipairs { "allow this user (%u[%u, ]*)",
        "run the '(%l+)' command", "to this user (%u+)", "allow (%u+) to this user" } do
        for some in text:gmatch(pattern) do
            for word in some:gmatch "%a+" do
                list[word:lower()] = true
            end
        end
    end
    return list
end

-- What is wrong with what a text says of the servers; nil: nothing. all: it is a report on all;
-- check: of `check`.
local function misnamed(self, of, text, all, check, must)
    local cause, told = of.cause, 0
    local parts = by_server(self, text)
    for i = 0, self.n do
        local part, bad = parts[i] or "", i > 0 and (i <= of.k or cause.refuses or cause.spreads)
        local named = other((bad or i == 0) and cause or causes.none, part,
            check)
        if named then
            return ("names %s of server %d"):format(named, i)
        end
        told = told + (i > 0 and says(cause, part, all) and 1 or 0)
    end
    if must and told < (all and of.k or 1) and not (told == 0 and not all
        and says(cause, text:lower())) then
        return ("names it of %d servers"):format(told)
    end
    for word in pairs(commands(text)) do
        if not of.denied[word] then
            return "blames " .. word
        end
    end
end

-- ---- cells -----------------------------------------------------------------------

-- What lists of locks ask for each key that they find: maybe there is none.
local FOUND = { getrange = true, pttl = true, type = true }

-- Whether a command may end in another way than expected.
local function may_differ(name, cause, verb, wanted, p)
    return cause.partial and not verb:find "^check"
        or (verb == "ls" or verb == "top") and p.status == 0 and FOUND[name:match "_(%l+)$"]
        or verb == "lead" and wanted == 143 and p.status == FAILED and p.text:find "  config  "
        or cause.taught and verb:find "^check" ~= nil
end

local WORDS = { [0] = "ok", "warning", "error" }

-- What is true in no cell, or has been said already.
local FALSE = { "held by somebody", "not a lock", "deadlock", "out of memory, threads",
    "; no lock was tried on it: LOADING" }

-- What a report must conclude from `votes` of servers.
local function conclusion(of, votes)
    return votes < of.q and "no locks" or of.fenced < of.q and "this user lacks rights"
        or votes < of.n and "restart no other server" or "mend what is listed"
end

local function false_claim(text)
    for _, claim in ipairs(FALSE) do
        if text:find(claim, 1, true) then
            return "says that it is " .. claim
        end
    end
end

-- What is wrong with a report: its verdict, its votes, and those of metrics.
local function misjudged(of, verb, p)
    local verdict, votes = p.text:match "\nverdict: (%l+)([^\n]*)"
    local voting = tonumber(votes:match "(%d+) of %d+ vote" or of.n)
    local metrics = p.text:match "metrics: (%d+)"
    if verb:find "^check" and verdict ~= WORDS[p.status] then
        return "ends with " .. p.status .. ", but says " .. verdict
    elseif not of.cause.partial and voting ~= of.plain then
        return ("says of the votes '%s', not %d"):format(votes, of.plain)
    elseif verdict ~= "ok" and not of.cause.taught
        and not votes:find(conclusion(of, voting), 1, true) then
        return "concludes '" .. votes .. "'"
    elseif metrics and metrics + 0 ~= of.counted then
        return ("counts %s votes in metrics, not %d"):format(metrics, of.counted)
    end
end

-- Adds to the list what is wrong with a command that has ended.
local function judge(list, self, name, of, verb, p, wanted, within)
    local cause, place = of.cause, ("%s, %d of %d, %s: "):format(name, of.k, of.n, verb)
    local function wrong(...)
        list[#list + 1] = place .. string.format(...) .. "\n    "
            .. p.text:gsub("\n+$", ""):gsub("\n", "\n    ")
    end
    if os.getenv "SHOW" then
        print(("---- %s%d in %.1f s, not %d\n%s"):format(place, p.status, p.took, wanted, p.text))
    end
    local reports = verb:find "^check" or verb == "program"
    if p.status ~= wanted and not may_differ(name, cause, verb, wanted, p) then
        return wrong("ends with %s, not %d", p.status, wanted)
    elseif p.status ~= 143 and p.took > within + SLACK then
        return wrong("takes %.1f s", p.took)
    end
    local must = (cause.says or cause.briefly) and (reports and not p.text:find "\nverdict: ok\n"
        or p.status ~= 0 and p.status ~= 3)
    local why = reports and misjudged(of, verb, p)
        or verb == "top" and p.text:match "(%d+) of %d+ servers vote" + 0 > of.n
            and "has too many votes"
        or false_claim(p.text)
        or misnamed(self, of, p.text, reports, verb == "check", must and not cause.taught)
    if why then
        wrong("%s", why)
    end
end

-- Carries out the remedy; the verdict must turn ok.
local function mend(list, self, name, of, told, waiter)
    local cause = of.cause
    local place = ("%s, %d of %d"):format(name, of.k, of.n)
    local pattern, act = unpack(cause.remedy)
    if not told.text:lower():find(pattern) and not cause.passes then
        list[#list + 1] = ("%s: no remedy '%s' in\n%s"):format(place, pattern, told.text)
    end
    local uris = {}
    for i = 1, of.k do
        uris[i] = self[i].uri
        act(self[i], self)
        if of.n == 1 then
            self[i]:call("CONFIG", "SET", "appendonly", "yes")
        end
    end
    local changed = self:configure()
    local p = waiter and stage.finish(waiter, sys.now() + (changed and 0 or 40))
    local awaited = p and p.text:match "waiting for ([^\n]*)" or ""
    for i = 1, waiter and of.k or 0 do
        if not awaited:find(uris[i], 1, true) then
            list[#list + 1] = ("%s, check --wait does not say for what:\n%s"):format(place, p.text)
        end
    end
    if not p or p.status ~= 0 then
        p = stage.finish(self:start { "check", "--wait" }, sys.now() + 40)
    end
    if p.status ~= 0 or not p.text:find "\nverdict: ok\n" then
        list[#list + 1] = ("%s, mended: check --wait ends with %d:\n%s"):format(place, p.status,
            p.text)
    end
    p = stage.finish(self:start { "run", "judge:mended", "--no-wait", "--", "true" },
        sys.now() + 2 * SLACK)
    if p.status ~= 0 then
        list[#list + 1] = ("%s, mended: run ends with %d:\n%s"):format(place, p.status, p.text)
    end
end

-- Of servers that vote after a while: before anybody waits for that.
local function init_first(list, self, name, of)
    judge(list, self, name, of, "init", self:init(), of.cause.init or FAILED, 10)
    for i = 1, of.k do
        of.cause.make(self[i], self)
    end
end

--- Judges one cause on k of n servers.
-- @return how many cells that were, and a list of what is wrong
function _M.run(name, k, n)
    local cause, list = causes[name], {}
    local self = stage.new(cause, k, n)
    self:configure()
    local of = look(self, cause)
    if cause.passes then
        init_first(list, self, name, of)
    end
    local waiter = self:start { "check", "--wait" }
    if cause.one_by_one then
        stage.finish(waiter, waiter.began + 2 * SLACK)
    end
    local running = {}
    for i, verb in ipairs(VERBS) do
        running[i] = self:start(verb[2])
        if cause.one_by_one then
            stage.finish(running[i], running[i].began + verb[4])
        end
    end
    running[#VERBS + 1] = waiter
    local told
    for i, verb in ipairs(VERBS) do
        local wanted = verb[3](of)
        local waits = wanted == 143 or verb[1] == "lead" and cause.partial
        if waits and running[i]:alive() then     -- until it has said what it waits for
            running[i].text = running[i]:read_line(SLACK)
            stage.finish(running[i], sys.now() + GRACE)
        end
        stage.finish(running[i], running[i].began + verb[4] + 2 * SLACK, running)
        judge(list, self, name, of, verb[1], running[i], wanted, verb[4])
        told = verb[1] == "check" and running[i] or told
    end
    local cells = #VERBS + 2
    if cause.awaits and waiter:alive() then
        cells = cells - 1
    else
        stage.finish(waiter, sys.now() + SLACK)
        if cause.awaits == true and not cause.passes then
            list[#list + 1] = ("%s, %d of %d, check --wait does not wait:\n%s"):format(name, k, n,
                waiter.text)
        end
        local plain = of.plain
        of.plain = cause.passes and of.n or plain
        judge(list, self, name, of, "check --wait", waiter, cause.passes and 0 or checked(of), 15)
        of.plain = plain
        waiter = nil
    end
    if not cause.passes then
        judge(list, self, name, of, "init", self:init(), of.plain == of.n and 0 or FAILED, 10)
    end
    if cause.remedy then
        mend(list, self, name, of, told, waiter)
        cells = cells + 2
    end
    return cells, list
end

return _M
