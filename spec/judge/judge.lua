-- What commands must say and how they must end, by what is true of the servers.
local causes = require "spec.judge.causes"
local stage = require "spec.judge.stage"
local sys = require "spec.support.sys"
local truth = require "spec.judge.truth"

local _M = {}

local FAILED = 125
local LIMIT = 30              -- seconds, for a command that waits for nothing; beside load, too
local GRACE = 0.3             -- seconds between the lines of one message

local PROGRAM = [[
local client = require "redlock".from_environment()
client:connect(0.3)
local lock = client:getLock "judge:program"
local ok, err = lock:tryLock(0)
print(ok and "tryLock: had" or "tryLock: " .. tostring(err))
if ok then lock:unlock() end
print(assert(client:check()))
os.exit(ok and 0 or 1)]]

-- How each must end. of: what is true; of.cause; of.q a majority.
local function held_if(field)
    return function(of)
        return (of[field] >= of.q or of.cause.passes) and 0 or FAILED
    end
end

local function answered(status, votes)
    return function(of)
        return of[votes or "answers"] >= of.q and status or FAILED
    end
end

-- It waits for votes.
local function free(of)
    return (of.looks >= of.q or of.cause.passes) and 0 or FAILED
end

local function checked(of)
    return not of.cause.says and 0 or of.fenced < of.q and 2 or 1
end

local VERBS = {
    { "run", { "run", "judge:run", "--no-wait", "--", "true" }, held_if "fenced" },
    { "run --plain", { "run", "judge:plain", "--no-wait", "--plain", "--", "true" },
        held_if "plain" },
    { "lead", { "lead", "judge:lead", "--", "true" }, function(of)
        return (of.fenced >= of.q or of.cause.passes) and 0 or 143
    end },
    { "check", { "check" }, checked },
    { "status", { "status", "judge:status" }, answered(3, "looks") },
    { "ls", { "ls" }, answered(0) },
    { "wait", { "wait", "judge:wait" }, free },
    { "unlock", { "unlock", "--force", "judge:unlock" }, answered(3) },
    { "top", { "top", "--count", "1" }, answered(0) },
    { "program", PROGRAM, function(of) return of.plain >= of.q and 0 or 1 end },
}

-- Verbs that may be granted a lock that cannot be kept; and those that look with more commands than
-- a lock needs.
local GRANTED = { run = true, ["run --plain"] = true, lead = true, program = true }
local LOOKS = { top = true, status = true, ls = true, wait = true, unlock = true }

-- What is true of a stage, in numbers.
local function look(self, cause)
    local of = { n = self.n, q = math.floor(self.n / 2) + 1, cause = cause, plain = 0, fenced = 0,
        answers = 0, looks = 0 }
    for i = 1, self.n do
        local its = truth.of(self, self[i].uri)
        for _, field in ipairs { "plain", "fenced", "answers", "looks" } do
            of[field] = of[field] + (its[field] and 1 or 0)
        end
    end
    of.answers = cause.deaf and of.answers - self.k or of.answers
    if cause.refuses and self.n > 1 then         -- one of another list keeps all from voting
        of.plain, of.fenced, of.looks = 0, 0, of.looks
    end
    return of
end

-- Whether a text has one of a cause's sentences. check: it is of `check`, which says more.
local function says(cause, text, check)
    text = text:lower()
    for _, patterns in ipairs { cause.says, not check and cause.briefly or nil } do
        for _, pattern in ipairs(type(patterns) == "table" and patterns or { patterns }) do
            if text:find(pattern) then
                return true
            end
        end
    end
end

-- The cause that a text names, and should not; nil: none.
local function other(name, cause, text)
    for also, one in pairs(causes) do
        local allowed = also == name or (cause.also or {})[also] or not one.says
            or one.command or one.rights and (cause.rights or cause.command)
        if not allowed and says(one, text, true) then
            return also
        end
    end
end

-- Whether a command may end in another way than expected.
local function may_differ(cause, verb, wanted, status)
    return cause.partial and GRANTED[verb]
        or (cause.command or cause.rights) and LOOKS[verb]
        or verb == "lead" and wanted == 143 and status == FAILED     -- it does not pass by itself
        or cause.taught and verb:find "^check" ~= nil
end

-- Adds to the list what is wrong with a command that has ended.
local function judge(list, name, of, verb, p, wanted)
    local cause, place = of.cause, ("%s, %d of %d, %s: "):format(name, of.k, of.n, verb)
    local function wrong(...)
        list[#list + 1] = place .. string.format(...) .. "\n    "
            .. (p.text or ""):gsub("\n+$", ""):gsub("\n", "\n    ")
    end
    if p.status ~= wanted and not may_differ(cause, verb, wanted, p.status) then
        return wrong("ends with %s, not %d", p.status, wanted)
    elseif p.late and wanted ~= 143 then
        return wrong("takes longer than %d s", LIMIT)
    end
    local voting = (verb:find "^check" or verb == "program") and p.text:match "verdict: (.*)"
    local votes = voting and tonumber(voting:match "(%d+) of %d+ vote" or of.n)
    if voting and not cause.partial and votes ~= of.plain then
        return wrong("says of the votes '%s', not %d", voting, of.plain)
    elseif verb == "top" and p.text:match "(%d+) of %d+ servers vote" + 0 > of.n then
        return wrong "has too many votes"
    end
    local must = cause.says and (voting and voting ~= "ok\n" or p.status ~= 0 and p.status ~= 3)
    if must and not cause.taught and not says(cause, p.text, verb:find "^check") then
        return wrong("does not name it")
    end
    local named = other(name, cause, p.text)
    if named then
        return wrong("names %s", named)
    end
end

-- Carries out the remedy; the verdict must turn ok.
local function mend(list, self, name, of, waiter)
    local cause = of.cause
    local pattern, act = unpack(cause.remedy)
    local text = stage.finish(self:start { "check" }, sys.now() + LIMIT).text
    if not text:lower():find(pattern) and not cause.passes then
        list[#list + 1] = ("%s, %d of %d: no remedy '%s' in\n%s"):format(name, of.k, of.n, pattern,
            text)
    end
    for i = 1, of.k do
        act(self[i], self)
        if of.n == 1 then
            self[i]:call("CONFIG", "SET", "appendonly", "yes")
        end
    end
    self:configure()
    local p
    if waiter then
        p = stage.finish(waiter, sys.now() + 40)
    end
    if not p or p.status ~= 0 then
        p = stage.finish(self:start { "check", "--wait" }, sys.now() + 40)
    end
    if p.status ~= 0 then
        list[#list + 1] = ("%s, %d of %d, mended: check --wait ends with %d:\n%s"):format(name,
            of.k, of.n, p.status, p.text)
    end
end

--- Judges one cause on k of n servers.
-- @return how many cells that were, and a list of what is wrong
function _M.run(name, k, n)
    local cause, list = causes[name], {}
    local self = stage.new(cause, k, n)
    self:configure()
    local of = look(self, cause)
    of.k = k
    local waiter = self:start { "check", "--wait" }
    local running = {}
    for i, verb in ipairs(VERBS) do
        running[i] = self:start(verb[2])
    end
    for i, verb in ipairs(VERBS) do
        local wanted = verb[3](of)
        if wanted == 143 then                    -- until it has said what it waits for
            running[i].text = running[i]:read_line(LIMIT)
            stage.finish(running[i], sys.now() + GRACE)
        end
        stage.finish(running[i], running[i].began + LIMIT)
        judge(list, name, of, verb[1], running[i], wanted)
    end
    local cells = #VERBS + 2
    if cause.awaits and waiter:alive() then
        cells = cells - 1
    else
        stage.finish(waiter, sys.now() + LIMIT)
        if cause.awaits and not cause.passes then
            list[#list + 1] = ("%s, %d of %d, check --wait does not wait:\n%s"):format(name, k, n,
                waiter.text)
        end
        local plain = of.plain
        of.plain = cause.passes and of.n or plain
        judge(list, name, of, "check --wait", waiter, cause.passes and 0 or checked(of))
        of.plain = plain
        waiter = nil
    end
    if not cause.passes then
        local p = self:init()
        judge(list, name, of, "init", p, of.plain == of.n and 0 or FAILED)
    end
    if cause.remedy then
        mend(list, self, name, of, waiter)
        cells = cells + 1
    end
    return cells, list
end

return _M
