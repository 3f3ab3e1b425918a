--- The steps of a base, below which a server counts no token: those of spec/models/tokens.pml.
--
-- A server tells the largest number that it gave out. One that has no base gets the largest that
-- N - q + 1 others have told since, or, where a majority has none, a guess. No other is written.

local floor, format, insert, sort = math.floor, string.format, table.insert, table.sort
local huge, min, max = math.huge, math.min, math.max
local ipairs, pairs, tonumber = ipairs, pairs, tonumber

local _M = { KEY = "redlock:{server}:floor", LIMIT = 5e13 }     -- no clock here leads as far

local NOTHING, ALL = 0, 1         -- the votes of fenced/tell.lua
local ASKED_US = 3.2e6            -- teach.c asks that long, and its answer is on its way

-- Whether that is the largest number in range of one memory.
local function gave_out(server, n)
    local entry, most = server.db[_M.KEY], {}
    for _, text in pairs(entry and entry.value or {}) do
        local run, number = text:match "^(%x%x%x%x%x%x%x%x)(%d+)$"
        number = tonumber(number)
        if number and number < _M.LIMIT then
            most[run] = max(most[run] or 0, number)
        end
    end
    for _, number in pairs(most) do
        if number == n then
            return true
        end
    end
    return false
end

--- Notes what a server answers to fenced/tell.lua.
-- @return why that is no step; else nil
function _M.told(server, now_us, vote, n)
    server.told = server.told or {}
    if vote == NOTHING then
        server.lacked_at, server.lacks_since = now_us, server.lacks_since or now_us
    elseif vote == ALL then
        insert(server.told, { at = now_us, n = n })
        if not gave_out(server, n) then
            return format("tells %.0f, which is not what it gave out", n)
        end
    end
end

--- A server gets a base.
-- @param text     the run and the number
-- @param away_us  for how long a process may have stood still behind its question
-- @return why that is no step; else nil
function _M.wrong(servers, server, text, now_us, away_us)
    local base, quorum = tonumber(text:sub(9)), floor(#servers / 2) + 1
    local since = (server.lacks_since or now_us) - ASKED_US - away_us
    local lacking, least, is_told = 0, {}, false
    server.lacks_since = nil
    for _, other in ipairs(servers) do
        local smallest = huge
        lacking = lacking + (other.lacked_at and other.lacked_at >= since and 1 or 0)
        for _, told in ipairs(other ~= server and other.told or {}) do
            if told.at >= since then
                smallest, is_told = min(smallest, told.n), is_told or told.n == base
            end
        end
        insert(least, other ~= server and smallest or nil)
    end
    sort(least)
    local needed = least[#servers - quorum + 1]
    if not base or base >= _M.LIMIT then
        return format("gets the base %s, to which nobody can have counted", text)
    elseif lacking < quorum and not (is_told and base >= needed) then
        return format("gets the base %.0f, which is not what enough others gave out", base)
    end
end

return _M
