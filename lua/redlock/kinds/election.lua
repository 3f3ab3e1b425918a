--- Elections: one of several candidates leads, until it resigns or loses the lock.
--
-- The room kinds/ has the kinds of locks, and what is built from them. A kind gives primitive.new()
-- its scripts, keys and hooks; the core path (lock/) calls those and knows no kind by name.
--
-- The leader holds a fenced lock, and the token is its term: terms are unique and grow, and at most
-- one leader is valid. Its id is in the label of that lock: "leader web-1 on host 4711 nginx".

local asking = require "redlock.lock.asking"
local card = require "redlock.text.card"
local encoding = require "redlock.text.encoding"
local errors = require "redlock.runtime.errors"
local fenced_lock = require "redlock.kinds.fenced_lock"
local future = require "redlock.lock.future"
local lock = require "redlock.lock.lock"
local majority = require("redlock.runtime.limits").majority
local question = require "redlock.runtime.question"
local rounds = require "redlock.runtime.rounds"
local subscriptions = require "redlock.runtime.subscription"
local validate = require "redlock.runtime.validate"

local error, ipairs, pcall = error, ipairs, pcall
local huge, max, min = math.huge, math.max, math.min
local setmetatable, tonumber, format, match = setmetatable, tonumber, string.format, string.match

local _M, Election, methods = {}, {}, {}
local OPTIONS = { id = true, on_elected = true, on_lost = true }
local LEADER = "leader "       -- what the label of a leader begins with

-- An id is one word of a label, which servers and programs that list locks cut at card.MAX.
local IN_LABELS, MAX_ID = "!-$&-~", card.MAX - #LEADER

local function label_of(client, id)
    local word = encoding.escape(validate.name("id", id, MAX_ID), IN_LABELS)
    if #word > MAX_ID then
        validate.bad("id", format("%d bytes are too long; at most %d, where a space, a %% and what "
            .. "is not printable ASCII count as three", #word, MAX_ID))
    end
    return LEADER .. word .. (client.label and " on " .. client.label or "")
end

-- The id in the card behind a value, or nil.
local function id_in(text)
    local word = match(text, "^ %x+ " .. LEADER .. "(%S+)")
    return word and encoding.unescape(word)
end

local function channel(self)
    return "redlock:{" .. self.client.options.prefix .. self.name .. ":leader}:free"
end

-- Has observers look who leads.
local function tell(self)
    question.send(self.client, { primitive = fenced_lock, script = "tell",
        keys = fenced_lock.keys(self.client, self.name), args = { channel(self) } })
end

function methods:campaign(wait)
    local view = self.view
    lock.check_wait(wait)
    if view:isValid() then
        return view:token()
    end
    if rounds.is_ending(self.client) then      -- an old worker of nginx is not elected
        return lock.failure(view, "closed")
    end
    local ok, term = view[wait == nil and "lock" or "tryLock"](view, wait)
    if not ok then
        return nil, term
    elseif rounds.is_ending(self.client) then
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
    local done, why = pcall(function()
        tell(self)
        if view:isValid() then
            self.on_elected(self, term)
        end
    end)
    if not done then                 -- nobody else would resign
        errors.finally(methods.resign, self)
        error(why, 0)
    end
    return view:token()
end

function methods:isLeader() return self.view:isValid() end
function methods:remaining() return self.view:remaining() end
function methods:term() return self.view:token() end

function methods:resign()
    local ok, err = self.view:unlock()
    if ok and self.client.core then
        tell(self)
    end
    return ok, err
end

local function leader_in(answer)
    return answer.vote == 1 and match(answer.data, "^%d+.*") or nil
end

function methods:leader()
    local said, err = asking.ask(self.view, "look", {})
    if not said then
        return nil, err
    end
    local leader, left = majority(said, self.client.size, leader_in), huge
    if leader == nil then
        return lock.failure(self.view, "no_quorum")
    elseif not leader then
        return false
    end
    for _, answer in ipairs(said) do
        if leader_in(answer) == leader then
            left = min(left, answer.info)
        end
    end
    local term, text = match(leader, "^(%d+)(.*)$")
    return { id = id_in(text), term = tonumber(term) }, max(left / 1000, 0)
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
        if rounds.is_ending(client) then
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

function methods:observe(fn)
    validate.is_function("fn", fn)
    return future.start(self.client, observe, self, fn)
end

function methods:campaignAsync(wait)
    lock.check_wait(wait)
    return future.start(self.client, self.campaign, self, wait)
end

function methods:getName() return self.name end
function methods:__tostring()
    local term = self:isLeader() and self:term()
    return format("election(%s, %s)", encoding.printable(self.name),
        term and format("leads in term %.0f", term) or "does not lead")
end
validate.methods(Election, "election", methods)

local function callback(opts, what)
    return opts[what] == nil and function() end or validate.is_function(what, opts[what])
end

function _M.new(client, name, opts)
    opts = validate.options("options", opts, OPTIONS)
    local view = lock.new(client, fenced_lock, name, { owner = {} })
    view.label = label_of(client, opts.id)
    return setmetatable({ client = client, name = name, id = opts.id, view = view,
        on_elected = callback(opts, "on_elected"), on_lost = callback(opts, "on_lost") }, Election)
end

return _M
