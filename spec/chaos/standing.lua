-- Tells of each attempt of those who stand in the line of a fair lock: which servers have entered
-- them in their queues. The library keeps that to itself.
local ffi = require "ffi"
local ffi_core = require "redlock.runtime.ffi"
local fair_lock = require "redlock.kinds.fair_lock"
local hooks = require "redlock.lock.hooks"
local marks = require "spec.chaos.marks"

-- What a server answers that did nothing; of others nobody knows what they have done.
local NOTHING = { "GUARDED", "UNSEEDED", "READONLY", "LOADING", "OOM" }

-- @return the servers that have refused an attempt, and how many have said that it got nothing
local function refusals(client, round)
    local C, node, servers, no = ffi_core.load(), ffi.new "rl_node_result", {}, 0
    for i = 0, client.size - 1 do
        C.rl_round_node(round, i, node)
        if node.answered ~= 0 and node.vote == 0 then
            servers[#servers + 1], no = i + 1, no + 1
        end
        for _, code in ipairs(NOTHING) do
            no = no + (node.answered == 0 and node.code == C["RL_" .. code] and 1 or 0)
        end
    end
    return servers, no
end

--- Calls tell(owner, mark) with the mark `stands` (history.lua) of each attempt of this process.
return function(tell)
    local attempt, refused = hooks.attempt, hooks.refused
    function hooks.attempt(call)
        call.wait.asked_at = marks.now()
        return attempt(call)
    end
    function hooks.refused(call)
        local wait, lock = call.wait, call.lock
        if lock.primitive ~= fair_lock or call.round == nil then
            return refused(call)
        end
        local since, now = wait.asked_at, marks.now()
        if wait.ticket then
            local servers, no = refusals(lock.client, call.round)
            tell(lock.owner, { k = "stands", l = lock.name, n = lock.owner.n, a = since, b = now,
                try = wait.n + 1, servers = servers, no = no })
        end
        return refused(call)
    end
end
