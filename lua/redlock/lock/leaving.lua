--- The last leave of a lock, which releases it on the servers.

local closing = require "redlock.lock.closing"
local errors = require "redlock.runtime.errors"
local handover = require "redlock.lock.handover"
local rounds = require "redlock.runtime.rounds"
local tally = require "redlock.lock.tally"

local _M = {}

--- Begins it: from now on the owner does not hold the lock.
-- @param lock        a lock object
-- @param owner       of the hold
-- @param hold        what is let go
-- @param for_future  as for rounds.release()
-- @return the round, or nil
function _M.begin(lock, owner, hold, for_future)
    local client = lock.client
    local now = client.now()
    hold.ends = now + rounds.remaining(hold.lease)
    -- In this order: an interrupt between the two must not keep it on the servers.
    local round = rounds.release(hold.lease, for_future)
    client.holds:remove(owner, lock.id)
    hold.looked = now
    return round
end

--- The round is done.
-- @param lock      a lock object
-- @param hold      what was let go
-- @param ok        as rounds.released() returns it,
-- @param told      the same,
-- @param more      the same
-- @return as unlock()
function _M.done(lock, hold, ok, told, more)
    local client = lock.client
    handover.released(lock, ok and told or 0, hold)
    if ok then
        if more then         -- now, before they are needed
            lock.primitive.unseeded(lock)
        end
        tally.released(client, hold)
        return true
    end
    local err = told
    tally.released(client, hold, err)
    if err.code == "expired" or err.code == "held" then
        client.holds:lose(hold, closing.reason(err, client.now() < hold.ends), more)
        errors.because(err, lock, hold.lost)
    end
    return nil, err
end

return _M
