--- Methods of a lock that ask the servers who holds it, or remove its keys.

local errors = require "redlock.runtime.errors"
local lock = require "redlock.lock.lock"
local holders = require "redlock.inspect.holders"
local limits = require "redlock.runtime.limits"
local question = require "redlock.runtime.question"
local validate = require "redlock.runtime.validate"

local ipairs, pairs, type, unpack = ipairs, pairs, type, unpack
local find, sub = string.find, string.sub

local _M = {}

local methods = lock.methods

local FORCE = { foreign = true, holder = true }
local AGAIN = 3               -- how often it looks for another holder

--- Runs one of the questions of a lock's primitive on the servers: "peek", or one that the
-- primitive lists in `asks`. args and keys are the primitive's by default.
-- @return a list (see question.answers), or nil and an error
function _M.ask(self, script, args, keys)
    local ok, err = lock.open_to_wait(self)
    if not ok then
        return nil, err
    end
    local client, prim = self.client, self.primitive
    if not prim[script .. "_script"] then
        return lock.failure(self, "unsupported")
    end
    return question.ask(client, { subject = self, primitive = prim, script = script,
        keys = keys or prim.keys(client, self.name), args = args or prim.args(self, { n = 0 }) })
end

function methods:ask(name, args)
    if type(name) ~= "string" or not self.primitive.asks[name] then
        validate.bad("question", "one of the primitive's asks is needed")
    end
    if args ~= nil then
        validate.strings("arguments", args, limits.MAX_ARGS)
    end
    return _M.ask(self, name, args)
end

-- Asks each server with a last argument of its own, by its place; nil: it is not asked.
-- @return place -> what question.answers() returned
local function ask_each(self, script, args, last)
    local client, prim, asked, said = self.client, self.primitive, {}, {}
    for place = 1, client.size do
        local all = { unpack(args) }
        all[#all + 1] = last[place]
        asked[#asked + 1] = last[place] and { body = prim[script .. "_script"], place = place,
            keys = prim.keys(client, self.name), args = all } or nil
    end
    for k, answer in ipairs(question.ask_each(client, asked)) do
        said[asked[k].place] = answer
    end
    return said
end

-- The holders that a server has told, or the one whose digits begin with `id`; nil: none.
local function chosen(told, id)
    local at = told.vote == 1 and find(" " .. told.data, " " .. (id or ""), 1, true)
    return at and (id and sub(told.data, at, at + 19) or told.data) or nil
end

--- Has each server tell who holds it, and remove nobody else (scripts/lock/named.lua): what comes
-- late removes no later holder. Asks again where others hold it by then. args: a list of strings,
-- or nil: the primitive's; opts: of forceUnlock, or nil.
-- @return true: a server had it; false: none; or nil and an error
function _M.force(self, script, args, opts)
    local ok, err = lock.open_to_wait(self)
    if not ok then
        return nil, err
    elseif not self.primitive[script .. "_script"]
        or opts and opts.holder and self.primitive.users then
        return lock.failure(self, "unsupported")
    end
    local client, removed, rows, tell = self.client, false, {}, {}
    args, opts = args or self.primitive.args(self, { n = 0 }), opts or {}
    for place = 1, client.size do
        tell[place] = opts.foreign and "*" or ""
    end
    for _ = 1, AGAIN do
        local named, again = {}, {}
        for place, said in pairs(ask_each(self, script, args, tell)) do
            rows[place], named[place] = said, chosen(said, opts.holder)
        end
        for place, said in pairs(ask_each(self, script, args, named)) do
            rows[place], removed = said, removed or said.vote == 1
            again[place] = said.vote == 0 and tell[place] or nil
        end
        tell = again
    end
    err = question.lack(client, self, rows)
    if err then
        return nil, err
    end
    return removed
end

function methods:forceUnlock(opts)
    opts = validate.options("options", opts, FORCE)
    validate.flag("foreign", opts.foreign)
    if opts.holder ~= nil then
        validate.name("holder", opts.holder, 20)
    end
    return _M.force(self, "force", nil, opts)
end

-- @return the holder that a majority names; false: a majority says that there is none; or nil and
--   an error
local function find_holder(self)
    local ok, err = lock.open_to_wait(self)
    if not ok then
        return nil, err
    elseif not self.primitive.peek_script then
        return lock.failure(self, "unsupported")
    end
    local holder
    holder, err = holders.ask(self)
    if holder == nil then
        return nil, err or errors.new("no_quorum", self)
    end
    return holder
end

function methods:isLocked()
    local holder, err = find_holder(self)
    if holder == nil then
        return nil, err
    end
    return holder ~= false
end

methods.holder = find_holder

function methods:remainTimeToLive()
    local holder, err = find_holder(self)
    if holder == nil then
        return nil, err
    end
    return holder and holder.remaining or 0
end

return _M
