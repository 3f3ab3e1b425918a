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

-- Whether it was possible to seal a server, with a note of enough of those.
local function seal(sim, base, server, servers, enough)
    local text, noted = voter(base, server), 0
    if not sim.guarded or not text then
        return false
    end
    local inc, nonce = sub(text, 1, 16), format("%016x", sim:below(2 ^ 31))
    for _, other in ipairs(servers) do
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
    if noted < enough then
        return false
    end
    server.sealed = sub(text, 1, 20) .. "s" .. sub(text, 22) .. " " .. nonce
    server.db[MARKER] = { value = server.sealed }
    sim:log(server.lane, "note", "is sealed")
    return true
end

--- Seals a server, and restarts it: with all it has then, or with what it had when it was sealed.
-- That may come back once more, when the seal was opened.
-- @param sim      the simulation
-- @param base     spec.sim.sim
-- @param server   which one
-- @param some_us  function(sim): how long things take
-- @param servers  of its list; nil: all
-- @param may      nil, or function(sim): whether it may come back once more
function _M.restart(sim, base, server, some_us, servers, may)
    if not seal(sim, base, server, servers or sim.servers, servers and floor(#servers / 2) + 1
        or sim.quorum) then
        return
    end
    local disk, lives = server:snapshot(), server.lives
    local function restart()
        -- Not behind a start with other data: holds may have been extended there.
        if server.lives ~= lives or server.state == base.C.SIM_DOWN then
            return
        elseif server.state ~= base.C.SIM_UP then
            sim:later(some_us(sim), restart)
        elseif not sim.calm_at or _M.is_sealed(server, server.db) then
            sim:restart_server(server, nil, some_us(sim) * 0.2)
            sim:remembers(server, sim:chance(50) and server:snapshot() or disk)
            disk = server:snapshot()
        end
    end
    sim:later(some_us(sim) * 0.5, restart)
    sim:later(sim:below(sim.config.guard_us), function()
        if _M.is_open(base, server) and not sim.calm_at and (not may or may(sim)) then
            sim:restart_server(server, disk, 5 * base.MS)
        end
    end)
end

return _M
