--- What changed in a client's core: losses, renewals, servers.

local ffi = require "ffi"
local core = require("redlock.runtime.ffi").load

local ipairs, tonumber = ipairs, tonumber

local _M = {}

-- Of rl_loss, from RL_LOSS_EXPIRED = 1 on.
local REASONS = { "expired", "taken", "forgotten", "max_hold", "suspended", "closed" }

--- Why a lease is lost: one of these; nil: not lost.
function _M.why_lost(handle)
    return REASONS[core().rl_lease_lost(handle)]
end

--- The key (rounds.key) of the k-th lease that was lost, or (renewed: 1, else 0) that was renewed;
-- nil: the core no longer knows it.
function _M.noted(client, renewed, k)
    local key = tonumber(core().rl_noted(client.core, renewed, k))
    return key ~= 0 and key or nil
end

--- Has the core do what is due, in hosts where no thread does.
-- @return when something is due next, on the clock of client.now()
function _M.poll(client)
    return tonumber(core().rl_poll(client.core)) / 1000
end

local COUNTERS = { "losses", "renewals", "node_changes", "auth_failures", "owed", "forgone" }

--- What a client's core has counted: a table of numbers, by the names of rl_counters.
function _M.counters(client)
    local out, counters = ffi.new "rl_counters", {}
    core().rl_get_counters(client.core, out)
    for _, name in ipairs(COUNTERS) do
        counters[name] = tonumber(out[name])
    end
    return counters
end

return _M
