--- Methods of a lock that ask the servers who holds it, or remove its keys.

local answers = require "redlock.runtime.answers"
local errors = require "redlock.runtime.errors"
local lock = require "redlock.lock.lock"
local holders = require "redlock.inspect.holders"
local limits = require "redlock.runtime.limits"
local question = require "redlock.runtime.question"
local validate = require "redlock.runtime.validate"

local type = type

local _M = {}

local methods = lock.methods

--- Runs one of the scripts of a lock's primitive on the servers: "peek", "force", or one that the
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

--- Runs a script of the primitive that removes something; args: a list of strings, or nil.
-- @return true: a server had it; false: none; or nil and an error
function _M.force(self, script, args)
    local said, err = _M.ask(self, script, args)
    if not said then
        return nil, err
    end
    return answers.yes(said) > 0
end

function methods:forceUnlock()
    return _M.force(self, "force")
end

-- @return the holder that a majority names; false: a majority says that there is none; or nil and
--   an error
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

function methods:isLocked()
    local holder, err = look(self)
    if holder == nil then
        return nil, err
    end
    return holder ~= false
end

methods.holder = look

function methods:remainTimeToLive()
    local holder, err = look(self)
    if holder == nil then
        return nil, err
    end
    return holder and holder.remaining or 0
end

return _M
