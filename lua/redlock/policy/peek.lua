--- Who holds a name, as a majority of the servers sees it.

local quorum = require "redlock.core.quorum"

local sort = table.sort
local huge, max = math.huge, math.max

local _M = {}

--- Counts what the servers answered to the question who holds it.
-- @param answers  a list (see rounds.ask)
-- @param n  how many servers there are
-- @return milliseconds for which each server of the majority that sees one holder keeps the key;
--   an empty list when nobody has a majority; nil when the servers that did not answer may make
--   one
function _M.count(answers, n)
    local left, seen, most = {}, {}, 0
    for i = 1, #answers do
        local who = answers[i].data
        if answers[i].vote > 0 then
            seen[who] = (seen[who] or 0) + 1
            most = max(most, seen[who])
            if answers[i].agreed then
                left[#left + 1] = answers[i].info
            end
        end
    end
    if #left == 0 and most > 0 and most + n - #answers >= quorum(n) then
        return nil
    end
    return left
end

--- @param left  see count()
-- @param n     how many servers there are
-- @return seconds until the lock opens by itself, 0 when nobody holds it; huge for keys without
--   an end
function _M.time_to_live(left, n)
    if #left == 0 then
        return 0
    end
    for i = 1, #left do
        left[i] = left[i] < 0 and huge or left[i]
    end
    sort(left, function(a, b)
        return a > b
    end)
    -- When the q-th longest is gone the majority is.
    return left[quorum(n)] / 1000
end

return _M
