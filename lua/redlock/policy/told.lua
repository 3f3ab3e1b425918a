--- The lock that functions are called with which are told what becomes of a hold.
--
-- A hold must not keep its owner: who is not collected keeps what he holds. So of a lock that has
-- an owner of its own only the rest is kept.

local getmetatable, pairs, setmetatable = getmetatable, pairs, setmetatable

local _M = {}

--- What is kept of a lock.
function _M.keep(lock)
    if lock.owner == nil then
        return lock
    end
    local kept = { lock = {}, class = getmetatable(lock) }
    for name, value in pairs(lock) do
        kept.lock[name] = value
    end
    kept.lock.owner = nil
    return kept
end

--- The lock again, for the owner of the hold; nil: who owned it is gone, and nobody is told.
-- @param holds  those of the client
-- @param hold   one of them
-- @param kept   of keep()
function _M.lock(holds, hold, kept)
    if not kept.class then
        return kept
    end
    local lock, owner = kept.lock, holds.whose[hold.mine]
    if owner == nil then
        return nil
    end
    local told = { owner = owner }
    for name, value in pairs(lock) do
        told[name] = value
    end
    return setmetatable(told, kept.class)
end

return _M
