--- What a lock asks the servers of whoever holds it.

local errors = require "redlock.runtime.errors"
local lock = require "redlock.lock.lock"
local holders = require "redlock.inspect.holders"
local limits = require "redlock.runtime.limits"
local rounds = require "redlock.runtime.rounds"
local validate = require "redlock.runtime.validate"

local type = type

local _M = {}

local methods = lock.methods

--- The answers of the nodes to one of the primitive's questions.
-- @param self    a lock
-- @param script  "peek", "force" and the like
-- @param args    default: the primitive's
-- @param keys    default: the primitive's
-- @return a list (see rounds.ask), or nil and an error
function _M.ask(self, script, args, keys)
    local ok, err = lock.open_to_wait(self)
    if not ok then
        return nil, err
    end
    local client, prim = self.client, self.primitive
    if not prim[script .. "_script"] then
        return lock.failure(self, "unsupported")
    end
    return rounds.ask(client, self, prim, script, keys or prim.keys(client, self.name),
        args or prim.args(self, { n = 0 }))
end
local ask = _M.ask

--- Asks the servers one of the primitive's own questions (its `asks`).
-- @param name  of the question
-- @param args  its ARGV: a list of at most 16 strings; default: the primitive's args(lock, wait)
-- @return a list of { node, vote, info, data, agreed } for the servers that answered, a majority
--   of them at least; agreed: whether it is of a majority that said the same; or nil and an error:
--   no_quorum, phase, closed
function methods:ask(name, args)
    if type(name) ~= "string" or not self.primitive.asks[name] then
        validate.bad("question", "one of the primitive's asks is needed")
    end
    if args ~= nil then
        validate.strings("arguments", args, limits.MAX_ARGS)
    end
    return ask(self, name, args)
end

--- Asks a script that removes something.
-- @param self    a lock
-- @param script  the name of one of the primitive's
-- @param args    a list of strings, or nil
-- @return true: a server had it; false: none; or nil and an error
function _M.force(self, script, args)
    local answers, err = ask(self, script, args)
    if not answers then
        return nil, err
    end
    for i = 1, #answers do
        if answers[i].vote > 0 then
            return true
        end
    end
    return false
end

--- Deletes it on all servers, whoever holds it; the holder is not told before its next
-- extension.
-- @return true: it was there; false: it was not; or nil and an error: no_quorum, closed
function methods:forceUnlock()
    return _M.force(self, "force")
end

-- As holders.ask(), with an error where no majority says either.
local function look(self)
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

--- @return whether somebody holds it on a majority of the servers; or nil and an error:
--   no_quorum, also when servers that did not answer would make a majority with those that
--   see one holder; closed
function methods:isLocked()
    local holder, err = look(self)
    if holder == nil then
        return nil, err
    end
    return holder ~= false
end

--- Whose it is, as a majority of the servers says.
-- @return { label, since (seconds since 1970, by the holder's clock), remaining (seconds) };
--   without label and since where the value does not say who (other libraries, label = false);
--   false: nobody holds it; or nil and an error: no_quorum, also when no majority names one
--   holder; unsupported; phase; closed
function methods:holder()
    return look(self)
end

--- @return seconds until it opens by itself, 0 when nobody holds it; or nil and an error.
--   huge for a key without an end (not made by this library).
function methods:remainTimeToLive()
    local holder, err = look(self)
    if holder == nil then
        return nil, err
    end
    return holder and holder.remaining or 0
end

return _M
