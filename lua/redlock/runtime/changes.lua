--- What changed in a client's core: losses, renewals, servers.

local ffi = require "ffi"
local core = require("redlock.runtime.ffi").load

local tonumber = tonumber

local _M = {}

local REASONS

--- Why a lease is lost: expired, taken, forgotten, max_hold, suspended, closed; nil: not lost.
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

--- The key (rounds.key) of the k-th lease that was lost; nil: the core no longer knows it.
function _M.lost_as(client, k)
    local key = tonumber(core().rl_lost(client.core, k))
    return key ~= 0 and key or nil
end

--- The key of the lease of the k-th renewal; nil: the core no longer knows it.
function _M.renewed_as(client, k)
    local key = tonumber(core().rl_renewed(client.core, k))
    return key ~= 0 and key or nil
end

--- Has the core do what is due, in hosts where no thread does.
-- @return when something is due next, on the clock of client.now()
function _M.poll(client)
    return tonumber(core().rl_poll(client.core)) / 1000
end

--- A number that changes with each loss, renewal, or change of a node.
function _M.happened(client)
    return tonumber(core().rl_changes(client.core))
end

--- What a client's core has counted (rl_counters): a table of numbers.
function _M.counters(client)
    local out = ffi.new "rl_counters"
    core().rl_get_counters(client.core, out)
    return { losses = tonumber(out.losses), renewals = tonumber(out.renewals),
        node_changes = tonumber(out.node_changes), auth_failures = tonumber(out.auth_failures),
        owed = tonumber(out.owed), forgone = tonumber(out.forgone) }
end

return _M
