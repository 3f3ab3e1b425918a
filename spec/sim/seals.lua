--- Planned restarts: servers that are sealed, as scripts/marker/seal.lua does it.

local find, floor, format, sub = string.find, math.floor, string.format, string.sub

local _M = {}

local MARKER, SEALS = "redlock:{server}:marker", "redlock:{server}:seals"

-- The marker of a server that votes in its present life; nil: it does not.
local function voter(base, server)
    local entry = server.db[MARKER]
    local text = entry and server.state == base.C.SIM_UP and entry.value
    return type(text) == "string" and find(text, "^%x+ v2 a " .. sub(server.replid, 1, 16))
        and text or nil
end

--- Whether the server votes, for all that was done to it before.
function _M.is_open(base, server)
    return voter(base, server) ~= nil
end

--- Whether that memory of a server is what was sealed, and is not opened yet: nothing has been
-- granted there since.
function _M.is_sealed(server, memory)
    local entry = memory[MARKER]
    return entry ~= nil and entry.value == server.sealed
end

--- Seals a server.
-- @param sim     the simulation
-- @param base    spec.sim.sim
-- @param server  which one
-- @return whether it was possible
function _M.seal(sim, base, server)
    local text, noted = voter(base, server), 0
    if not sim.guarded or not text then
        return false
    end
    local inc, nonce = sub(text, 1, 16), format("%016x", sim:below(2 ^ 31))
    for _, other in ipairs(sim.servers) do
        if other ~= server and voter(base, other) then
            local entry, copy = other.db[SEALS], {}
            for field, value in pairs(entry and entry.value or {}) do
                copy[field] = value
            end
            copy[inc] = format("%s@%.0f", nonce, floor(other:clock() / 1e6))
            other.db[SEALS] = { value = copy }
            noted = noted + 1
        end
    end
    if noted < sim.quorum then
        return false
    end
    server.sealed = sub(text, 1, 20) .. "s" .. sub(text, 22) .. " " .. nonce
    server.db[MARKER] = { value = server.sealed }
    sim:log(server.lane, "note", "is sealed")
    return true
end

return _M
