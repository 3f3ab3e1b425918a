--- Waits that cannot end well: for a lock whose holder waits for the caller, or may do so.

local rounds = require "redlock.core.rounds"

local huge = math.huge

local _M = {}

-- Whether a hold, or nil, is kept for longer than a call waits.
-- @param left  seconds
local function outlasts(hold, left)
    local remaining = hold and rounds.remaining(hold.lease) or 0
    return remaining > 0 and (hold.kept or remaining > left)
end

--- Whether the holder may wait for the owner of a call in a queue, and keeps the lock for longer
-- than the call waits.
-- @param call  see acquire.lua
-- @param left  seconds that it waits still
function _M.is_in_vain(call, left)
    local client = call.lock.client
    local in_vain = not call.lock.primitive.shared and client.host.in_vain
    return in_vain and outlasts(in_vain(client.holds, call.lock.id, call.owner), left)
end

--- Whether that is so of a lock of another kind under this name, whose holder may be the owner
-- of the call as well.
-- @param call  see acquire.lua
-- @param left  seconds that it waits still
function _M.is_in_vain_beside(call, left)
    local lock, owner = call.lock, call.owner
    local client, kinds = lock.client, lock.primitive.rivals
    local in_vain = client.host.in_vain
    for i = 1, #kinds do
        local id = kinds[i] .. ":" .. lock.name
        if outlasts(client.holds:get(owner, id), left)
            or in_vain and outlasts(in_vain(client.holds, id, owner), left) then
            return true
        end
    end
    return false
end

--- Whether a call that blocks its thread waits for what another owner of the thread holds for
-- longer, or any owner as another kind of lock: none of them can let go meanwhile.
-- @param call  see acquire.lua
function _M.is_certain(call)
    local lock, client, kinds = call.lock, call.lock.client, call.lock.primitive.rivals
    client.tasks:poll()          -- a future of the thread may have got the lock
    local left = not lock.primitive.shared and client.holds:held_by_others(call.owner, lock.id)
        or nil
    for i = 1, #kinds do
        left = left or client.holds:held_by_others(nil, kinds[i] .. ":" .. lock.name)
    end
    return left == huge or left and left > call.deadline - client.now()
end

return _M
