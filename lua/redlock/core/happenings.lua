--- What has happened in a client's core: losses, renewals, changes of servers.

local core = require("redlock.core.ffi").load

local tonumber = tonumber

local _M = {}

local REASONS

--- Why a lease is lost: expired, taken, forgotten, max_hold, suspended, closed; nil: it is not.
function _M.why_lost(handle)
    local C = core()
    REASONS = REASONS or {
        [tonumber(C.RL_LOSS_EXPIRED)] = "expired",
        [tonumber(C.RL_LOSS_TAKEN)] = "taken",
        [tonumber(C.RL_LOSS_FORGOTTEN)] = "forgotten",
        [tonumber(C.RL_LOSS_MAX_HOLD)] = "max_hold",
        [tonumber(C.RL_LOSS_SUSPENDED)] = "suspended",
        [tonumber(C.RL_LOSS_CLOSED)] = "closed",
    }
    return REASONS[C.rl_lease_lost(handle)]
end

--- How many leases of a client were lost so far.
function _M.losses(client)
    return tonumber(core().rl_losses(client.core))
end

--- What the core called the k-th lease that was lost; nil: it is not known any more.
function _M.lost_as(client, k)
    local key = tonumber(core().rl_lost(client.core, k))
    return key ~= 0 and key or nil
end

--- What the core called the lease of the k-th renewal; nil: it is not known any more.
function _M.renewed_as(client, k)
    local key = tonumber(core().rl_renewed(client.core, k))
    return key ~= 0 and key or nil
end

--- Lets the core do what is due, where nobody else does.
-- @return when something is due next, of client.now()
function _M.poll(client)
    return tonumber(core().rl_poll(client.core)) / 1000
end

--- A number that is another one when anything of this has happened: losses, renewals, changes
-- of nodes.
function _M.happened(client)
    return tonumber(core().rl_happenings(client.core))
end

--- What happened so far: renewals got through, changes of nodes.
function _M.counts(client)
    return tonumber(core().rl_renewals(client.core)), tonumber(core().rl_node_changes(client.core))
end

--- How many connections were refused for their credentials so far.
function _M.auth_failures(client)
    return tonumber(core().rl_auth_failures(client.core))
end

return _M
