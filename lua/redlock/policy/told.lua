--- The lock that functions are called with which are told what becomes of a hold.
--
-- A hold must not keep its owner: who is not collected keeps what he holds. So of a lock that has
-- an owner of its own only the rest is kept, and the lock itself while somebody else refers to it.

local getmetatable, pairs, setmetatable = getmetatable, pairs, setmetatable

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

--- What is kept of a lock.
function _M.keep(lock)
    if lock.owner == nil then
        return { same = { lock } }
    end
    return { same = setmetatable({ lock }, WEAK), rest = copy(lock) }
end

--- The lock again, for the owner of the hold; nil: who owned it is gone, and nobody is told.
-- @param holds  those of the client
-- @param hold   one of them
-- @param kept   of keep()
function _M.lock(holds, hold, kept)
    local owner = holds.whose[hold.mine]
    return kept.same[1] or owner ~= nil and copy(kept.rest, owner) or nil
end

return _M
