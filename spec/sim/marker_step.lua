--- The steps of a marker: those of spec/models/marker.pml.
--
-- Another INC begins anew; progress counts on by no more than the server's clock does; a step of
-- its clock begins anew; an admission has served, but for init's. Nothing else happens to a marker.
-- Foreign texts are no states.

local format, match, max, tonumber = string.format, string.match, math.max, tonumber

local _M = {}

-- The words of a marker; nil: it is none of ours.
local function read(text)
    local inc, state, max_ms, observed, at = match(text or "",
        "^(%x+) v4 (%a) %S+ %d+ (%d+) %S+ ?(%d*) ?(%d*)$")
    return inc and { inc = inc, state = state, max_ms = tonumber(max_ms),
        observed = tonumber(observed) or 0, at = tonumber(at) or 0 }
end

local function is_right(was, is, initiates)
    local begins = is and (is.state == "a" or is.observed == 0)
    if not is or not was or was.inc ~= is.inc then
        return is == nil or begins
    elseif is.state == "a" then
        return was.state == "a" or was.observed >= was.max_ms * 1.01 + 1000 or initiates
    elseif was.state == "a" then
        return is.state == "s" and begins
    elseif was.state == is.state or was.state == "n" and is.state == "l" then
        return is.observed == 0 or is.observed - was.observed <= max(0, is.at - was.at)
    end
    return is.state == "s" and begins
end

--- @param old        the text before, or nil
-- @param initiates  whether somebody runs init
-- @return why the step is none; else nil
function _M.wrong(old, new, initiates)
    if not is_right(read(old), read(new), initiates) then
        return format("a marker is set that no rule explains: %s -> %s", old, new)
    end
end

return _M
