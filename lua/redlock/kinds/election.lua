--- Elections: one of several candidates leads, until it resigns or loses the lock.
--
-- The room kinds/ has the kinds of locks, and what is built from them. A kind gives primitive.new()
-- its scripts, keys and hooks; the core path (lock/) calls those and knows no kind by name.
--
-- The leader holds a fenced lock, and the token is its term: terms are unique and grow, and at most
-- one leader is valid. The announcement (term and id) is a key beside the counter; readers ignore
-- one whose term is not the lock's, so an outdated one does no harm.

local answers = require "redlock.runtime.answers"
local asking = require "redlock.lock.asking"
local errors = require "redlock.runtime.errors"
local fenced_lock = require "redlock.kinds.fenced_lock"
local floors = require "redlock.servers.floors"
local future = require "redlock.lock.future"
local lock = require "redlock.lock.lock"
local majority = require("redlock.runtime.limits").majority
local printable = require("redlock.text.encoding").printable
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local ffi_values = require "redlock.runtime.ffi_values"
local subscriptions = require "redlock.runtime.subscription"
local validate = require "redlock.runtime.validate"

local error, ipairs, pcall = error, ipairs, pcall
local huge, max, min = math.huge, math.max, math.min
local setmetatable, tonumber, format, match = setmetatable, tonumber, string.format, string.match

local _M, Election, methods = {}, {}, {}
local OPTIONS = { id = true, on_elected = true, on_lost = true }
local MAX_ID, ANNOUNCEMENTS = 160, 3  -- bytes; attempts to reach a majority

local function keys_of(self)
    local keys = fenced_lock.keys(self.client, self.name)
    return { keys[1], keys[2], "redlock:{" .. keys[1] .. "}:who" }
end

local function channel(self)
    return "redlock:{" .. self.client.options.prefix .. self.name .. ":leader}:free"
end

local function ask(self, script, args)
    return asking.ask(self.view, script, args, keys_of(self))
end

-- Tells the servers that counted this term who leads, until a majority knows.
local function announce(self, hold, term)
    local client = self.client
    local args = { ffi_values.of(hold.lease), format("%.0f", term), self.id,
        format("%d", rounds.to_ms(floors.COUNTER_TTL)), channel(self) }
    for _ = 1, ANNOUNCEMENTS do
        local said = ask(self, "announce", args) or {}
        if answers.yes(said) >= client.quorum or lock.hold_of(self.view) ~= hold then
            return
        end
    end
end

-- Lets everybody know of a new leader that still leads.
local function take_office(self, hold, term)
    announce(self, hold, term)
    if self.view:isValid() then
        self.on_elected(self, term)
    end
end

--- Stands for election, and waits until this candidate leads.
function methods:campaign(wait)
    local view = self.view
    lock.check_wait(wait)
    if view:isValid() then
        return view:token()
    end
    if rounds.is_over(self.client) then      -- an old worker of nginx is not elected
        return lock.failure(view, "closed")
    end
    local ok, term = view[wait == nil and "lock" or "tryLock"](view, wait)
    if not ok then
        return nil, term
    elseif rounds.is_over(self.client) then
        view:unlock()
        return lock.failure(view, "closed")
    end
    local hold = lock.hold_of(view)
    if not hold then
        return lock.failure(view, "lost")
    end
    local elected = hold.leader      -- by another call of campaign(), at the same time
    hold.leader, hold.count = self.id, 1
    if elected then
        return term
    end
    view:onLost(function(_, reason) self.on_lost(self, reason) end)
    local done, why = pcall(take_office, self, hold, term)
    if not done then                 -- nobody else would resign
        errors.finally(methods.resign, self)
        error(why, 0)
    end
    return view:token()
end

--- Whether this candidate leads now, by the local clock.
function methods:isLeader() return self.view:isValid() end
--- For how many seconds it leads unless the lease is renewed; 0: it does not lead.
function methods:remaining() return self.view:remaining() end
--- The term, or nil and an error.
function methods:term() return self.view:token() end

function methods:resign()
    local term = self.view:token()
    local ok, err = self.view:unlock()
    if ok and term and self.client.core then
        question.say(self.client, { primitive = fenced_lock, script = "retire",
            keys = keys_of(self), args = { channel(self), format("%.0f", term) } })
    end
    return ok, err
end

local function term_of(answer)
    return answer.vote == 1 and tonumber(match(answer.data, "^(%d+) ")) or nil
end

--- Asks the servers who leads; `id` is nil while no server that answered knows it.
function methods:leader()
    local said, err = ask(self, "look", {})
    if not said then
        return nil, err
    end
    local term = majority(said, self.client.size, term_of)
    if term == nil then
        return lock.failure(self.view, "no_quorum")
    elseif not term then
        return false
    end
    local left, id = huge, nil
    for _, answer in ipairs(said) do
        if term_of(answer) == term then
            left, id = min(left, answer.info), id or match(answer.data, "^%d+ (.+)$")
        end
    end
    return { id = id, term = term }, max(left / 1000, 0)
end

-- Calls fn for each change until the client is closed, or the process ends.
local function follow(subscription, self, fn)
    local client, last, id, highest, seen = self.client, nil, nil, 0, 0
    while true do
        local found, left = self:leader()
        local term = found and found.term
        if found and term >= highest and (term ~= last or found.id ~= id)
            or found == false and last ~= false then
            last, id, highest = term, found and found.id, term or highest
            fn(found or nil)
        end
        if rounds.is_over(client) then
            return
        end
        seen = subscriptions.sleep(client, subscription, seen,
            found and max(min(left, client.options.lease), 0.01) or client.options.fallback)
    end
end

local function observe(self, fn)
    local ok, err = lock.open_to_wait(self.view)
    if not ok then
        return nil, err
    end
    subscriptions.with(self.client, channel(self), follow, self, fn)
    return lock.failure(self.view, "closed")
end

--- Calls fn(leader) now and after each change; terms never go back.
function methods:observe(fn)
    validate.is_function("fn", fn)
    return future.start(self.client, observe, self, fn)
end

--- campaign() as a future.
function methods:campaignAsync(wait)
    lock.check_wait(wait)
    return future.start(self.client, self.campaign, self, wait)
end

function methods:getName() return self.name end
--- For people: "election(scheduler, leads in term 7)".
function methods:__tostring()
    local term = self:isLeader() and self:term()
    return format("election(%s, %s)", printable(self.name),
        term and format("leads in term %.0f", term) or "does not lead")
end

Election.__index = Election
validate.methods(Election, "election", methods)

local function callback(opts, what)
    return opts[what] == nil and function() end or validate.is_function(what, opts[what])
end

--- See Client:getElection.
function _M.new(client, name, opts)
    opts = validate.options("options", opts, OPTIONS)
    return setmetatable({ client = client, name = name, id = validate.name("id", opts.id, MAX_ID),
        on_elected = callback(opts, "on_elected"), on_lost = callback(opts, "on_lost"),
        view = lock.new(client, fenced_lock, name, { owner = {} }) }, Election)
end

return _M
