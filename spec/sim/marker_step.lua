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

-- What is wrong with a step; false: nothing.
local function fault_of(was, is, initiates)
    local begins = is and (is.state == "a" or is.observed == 0)
    if not is or not was or was.inc ~= is.inc then
        return is and not begins and "a quarantine begins, and some of it counts already"
    elseif is.state == "a" then
        local least = was.max_ms * 1.01 + 1000
        return was.state ~= "a" and was.observed < least and not initiates
            and format("a quarantine ends after %.0f of %.0f ms", was.observed, least)
    elseif was.state == is.state or was.state == "n" and is.state == "l" then
        return is.observed ~= 0 and is.observed - was.observed > max(0, is.at - was.at)
            and "more of a quarantine counts than has passed"
    end
    return not (is.state == "s" and begins)
        and "an admission or a quarantine ends without a step of the clock"
end

--- @param old        the text before, or nil
-- @param initiates  whether somebody runs init
-- @return what is wrong; nil: nothing
function _M.wrong(old, new, initiates)
    local why = fault_of(read(old), read(new), initiates)
    return why and format("%s: its marker %s becomes %s", why, old, new) or nil
end

return _M
