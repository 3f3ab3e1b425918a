--- Who has arrived at a latch, as a majority of the servers knows.
--
-- Each server keeps a set, which only grows. Whoever looks unites the sets of a majority, and
-- writes the union back, also to servers that have forgotten the latch, before it says that the
-- latch is open. Majorities that are asked for the pages of the sets may differ: whoever was
-- acknowledged by a majority is known to a server of each.

local asking = require "redlock.lock.asking"
local lock = require "redlock.lock.lock"
local primitive = require "redlock.kinds.primitive"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local ipairs, pairs, tonumber, unpack = ipairs, pairs, tonumber, unpack
local format, match, min, max = string.format, string.match, math.min, math.max

local _M = {}

local PAGE, A_MESSAGE = 12, 11         -- ids in an answer (arrive.lua), and in what is written back

local function script(name)
    return script_text.read("redlock.scripts.latch." .. name)
end

local function keys(client, name)
    local key = "redlock:{" .. client.options.prefix .. name .. "}:"
    return { key .. "latch", key .. "arrived" }
end

local function channel(client, name)
    return "redlock:{" .. client.options.prefix .. name .. ":latch}:free"
end

local arrive = script "arrive"
_M.primitive = primitive.new {
    name = "latch",
    unlabelled = true,           -- the value is the latch's id
    acquire = script "create",
    release = script "release",
    settle = script "settle",
    asks = { look = { arrive }, arrive = { arrive, guarded = true }, delete = { script "delete" } },
    keys = keys,
    args = function(view) return { format("%d", view.count or 0) } end,
    channel = channel,
}
_M.channel = channel

--- ARGV of arrive.lua.
-- @param self   a latch: client, name, ttl
-- @param id     of the latch, or "": whichever there is
-- @param known  the last one who is known; "-": nobody is asked for
-- @param count  of the latch, where it is to be made if need be; or 0
-- @param ...    who has arrived
function _M.args_of(self, id, known, count, ...)
    return { id, format("%d", rounds.to_ms(self.ttl)), channel(self.client, self.name), known,
        format("%d", count), ... }
end

--- The latch that a majority knows.
-- @param self     a latch
-- @param answers  to arrive.lua
-- @return its id, its count, and how many of those who answered say that it is open; or nil and a
--   code
function _M.known_to_a_majority(self, answers)
    local client, by, left = self.client, {}, #answers
    for _, answer in ipairs(answers) do
        local id, count = match(answer.data, "^(%x+) (%d+) ")
        if answer.vote == 1 and id then
            by[id] = by[id] or { known = 0, open = 0, count = tonumber(count) }
            by[id].known = by[id].known + 1
            by[id].open = by[id].open + (answer.info == 0 and 1 or 0)
        end
    end
    local most = 0
    for id, of in pairs(by) do
        if of.known >= client.quorum then
            return id, of.count, of.open
        end
        most = max(most, of.known)
    end
    return nil, most + client.size - left >= client.quorum and "no_quorum" or "not_found"
end

-- Adds who is named in answers about a latch.
-- @return the last one up to whom all are known; nil: all are
local function unite(union, id, answers)
    local next_one
    for _, answer in ipairs(answers) do
        local page, n, last = match(answer.data, "^" .. id .. " %d+ (%x*)$") or "", 0, nil
        for who in page:gmatch(("%x"):rep(16)) do
            union[who], n, last = true, n + 1, who
        end
        next_one = n == PAGE and (not next_one or last < next_one) and last or next_one
    end
    return next_one
end

-- Writes back who has arrived, a message for some of them each.
local function write_back(self, view, id, count, union)
    local list = {}
    for who in pairs(union) do
        list[#list + 1] = "=" .. who
    end
    for from = 1, #list, A_MESSAGE do
        local answers, err = asking.ask(view, "arrive", _M.args_of(self, id, "-", count,
            unpack(list, from, min(from + A_MESSAGE - 1, #list))))
        if not answers then
            return nil, err
        end
        local yes = 0
        for _, answer in ipairs(answers) do
            yes = yes + (answer.vote == 1 and 1 or 0)
        end
        if yes < self.client.quorum then
            return lock.failure(self, "no_quorum")
        end
    end
    return true
end

--- Looks how many are missing, and gives servers what they lack.
-- @param self  a latch
-- @return the number; or nil and an error
function _M.look(self)
    local view = lock.new(self.client, _M.primitive, self.name)
    local union, known, differ, id, count = {}, "", false
    repeat
        local answers, err = asking.ask(view, "look", _M.args_of(self, id or "", known, 0))
        if not answers then
            return nil, err
        end
        local this, that, open = _M.known_to_a_majority(self, answers)
        if not this or id and this ~= id then
            return lock.failure(self, id and "no_quorum" or that)
        end
        id, count = this, that
        if open >= self.client.quorum then
            return 0
        end
        for _, answer in ipairs(answers) do
            differ = differ or answer.vote ~= 1 or answer.info ~= answers[1].info
        end
        known = unite(union, id, answers)
    until not known
    local n = 0
    for _ in pairs(union) do
        n = n + 1
    end
    if n >= count or differ then
        local ok, err = write_back(self, view, id, count, union)
        if not ok and n >= count then
            return nil, err
        end
    end
    return max(count - n, 0)
end

return _M
