--- What a majority of n servers is, and what the middle one of them says.

local floor, sort = math.floor, table.sort

local _M = {}

--- @return how many of n servers are a majority: any two majorities share a server
function _M.quorum(n)
    return floor(n / 2) + 1
end

--- @param list  numbers, which are sorted
-- @return the middle one; 0: the list is empty
function _M.median(list)
    sort(list)
    return list[floor(#list / 2) + 1] or 0
end

return _M
