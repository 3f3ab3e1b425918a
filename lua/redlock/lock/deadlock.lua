--- Waits that cannot end well, because the holder waits for the caller, or may do so.

local rounds = require "redlock.runtime.rounds"

local ipairs, pairs, huge = ipairs, pairs, math.huge

local _M = {}

-- Whether a hold, or nil, outlasts a wait of `left` seconds.
local function outlasts(hold, left)
    local remaining = hold and rounds.remaining(hold.lease) or 0
    return remaining > 0 and (hold.kept or remaining > left)
end

-- What excludes a lock in this process: other kinds, and sets that overlap. A list of kind:name.
local function rivals_of(lock)
    local prim, ids, wanted = lock.primitive, {}, {}
    for _, name in ipairs(prim.names and prim.names(lock.name) or { lock.name }) do
        wanted[name] = prim.rivals[1] ~= nil
        for _, kind in ipairs(prim.rivals) do
            ids[#ids + 1] = kind .. ":" .. name
        end
    end
    for _, hold in pairs(lock.client.holds.sets) do
        for _, name in ipairs(hold.id ~= lock.id and hold.primitive.names(hold.name) or {}) do
            if wanted[name] then
                ids[#ids + 1] = hold.id
                break
            end
        end
    end
    return ids
end

--- Whether the holder may wait for the owner of a call in a queue, and outlasts the `left` seconds
-- of the call's wait.
function _M.is_in_vain(call, left)
    local client = call.lock.client
    local in_vain = not call.lock.primitive.shared and client.host.in_vain
    return in_vain and outlasts(in_vain(client.holds, call.lock.id, call.owner), left)
end

--- Like is_in_vain(), for locks of other kinds under this name, which the owner of the call itself
-- may hold.
function _M.is_in_vain_beside(call, left)
    local lock, owner = call.lock, call.owner
    local client = lock.client
    local in_vain = client.host.in_vain
    for _, id in ipairs(rivals_of(lock)) do
        if outlasts(client.holds:get(owner, id), left)
            or in_vain and outlasts(in_vain(client.holds, id, owner), left) then
            return true
        end
    end
    return false
end

--- Whether a call that blocks its thread waits for a hold that lasts longer than the wait: of
-- another owner of the thread, or of any owner as another kind of lock. Neither can release it
-- meanwhile.
function _M.is_certain(call)
    local lock, client = call.lock, call.lock.client
    client.tasks:poll()          -- a future of the thread may have got the lock
    local left = not lock.primitive.shared and client.holds:held_by_others(call.owner, lock.id)
        or nil
    for _, id in ipairs(rivals_of(lock)) do
        left = left or client.holds:held_by_others(nil, id)
    end
    return left == huge or left and left > call.deadline - client.now()
end

return _M
