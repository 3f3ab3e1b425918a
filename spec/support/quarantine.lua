-- For specs of the restart guard: clients whose quarantines are short.
local sys = require "spec.support.sys"

local _M = {}

-- How long a quarantine lasts, in seconds, at least: the core's clock counts whole milliseconds.
function _M.guard(max_lease)
    return max_lease * 1.01 + 1 - 0.001
end

_M.MAX_LEASE = 0.5
_M.GUARD = _M.guard(_M.MAX_LEASE)
-- What is said of a server that has lost its memory, and of one that nobody has seen before.
_M.LOST = "^it lost its memory %(.-%) and may have forgotten locks; it votes in %d+ s of %d+, "
_M.NEW = "^it has no memory of locks yet; it votes in %d+ s of %d+, "

-- Options of a client, and more of them.
function _M.options(more)
    local o = { max_lease = _M.MAX_LEASE, lease = 0.4, fallback = 0.1 }
    for name, value in pairs(more or {}) do
        o[name] = value
    end
    return o
end

-- Lets the client serve its connections.
function _M.turn(client)
    client:getLock("turn"):isLocked()
end

function _M.await_up(client, i)
    sys.eventually(function()
        _M.turn(client)
        return client:stats().nodes[i].ready
    end)
end

return _M
