--- Those who are told what becomes of a hold: functions of users, each with the lock it gets.
--
-- A hold must not keep its owner: who is not collected keeps what he holds. So of a lock that has
-- an owner of its own only the rest is kept, and the lock itself while somebody else refers to it.

local interrupt = require "redlock.runtime.interrupt"

local getmetatable, pairs, pcall, setmetatable, tostring =
    getmetatable, pairs, pcall, setmetatable, tostring
local format = string.format

local _M = {}

local WEAK = { __mode = "v" }

local function copy(lock, owner)
    local its = {}
    for name, value in pairs(lock) do
        its[name] = value
    end
    its.owner = owner
    return setmetatable(its, getmetatable(lock))
end

--- Somebody who is to be told, for tell().
-- @param event  as users know it, like "onLost"
-- @param fn     gets the lock, and what tell() is given
-- @param lock   of whoever asks to be told
-- @param named  whether the lock that fn gets is to have its owner's name: fn runs elsewhere, and
--   what it does with the lock is to be done for that owner
function _M.new(event, fn, lock, named)
    if lock.owner == nil and not named then
        return { event = event, fn = fn, same = { lock } }
    end
    return { event = event, fn = fn, rest = copy(lock),
        same = setmetatable({ lock.owner ~= nil and lock or nil }, WEAK) }
end

local function call(host, one, lock, word, ...)
    if word ~= nil then
        local ok, err = pcall(one.fn, lock, word, ...)
        if not ok then       -- it must not hit whoever happens to call the library
            interrupt.rethrow(err)
            host.log(format("an %s function failed: %s", one.event, tostring(err)))
        end
    end
end

--- Tells somebody, as soon as the host lets functions of users run; nobody if the owner is gone.
-- @param holds  those of the client
-- @param hold   one of them
-- @param one    of new()
-- @param words  function(): what is told beside the lock, as things are by then; nil: nothing
function _M.tell(holds, hold, one, words)
    local host, owner = holds.client.host, holds.whose[hold.mine]
    local lock = one.same[1] or owner ~= nil and copy(one.rest, owner)
    if lock then
        host.defer(function() call(host, one, lock, words()) end)
    end
end

return _M
