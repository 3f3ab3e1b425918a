--- Who holds a name, as a majority of the servers sees it.

local quorum = require("redlock.runtime.majority").quorum

local sort = table.sort

local _M = {}

local function longest_first(a, b)
    return a > b
end

--- @param said  of each server that answered: { who = whose key it has, or nil; left = seconds
--   that it keeps it, huge for a key without an end }
-- @param n     how many servers there are
-- @return true, who holds it, and the seconds until it opens by itself; false: nobody has a
--   majority; nil: with the servers that did not answer somebody may
function _M.view(said, n)
    local keys, most, whose, q = {}, 0, nil, quorum(n)
    for i = 1, #said do
        local who = said[i].who
        if who then
            keys[who] = keys[who] or {}
            local list = keys[who]
            list[#list + 1] = said[i].left
            if #list > most then
                most, whose = #list, who
            end
        end
    end
    if most >= q then
        local left = keys[whose]
        sort(left, longest_first)
        return true, whose, left[q]      -- when the q-th longest is gone the majority is
    elseif #said < q or most > 0 and most + n - #said >= q then
        return nil
    end
    return false
end

return _M
