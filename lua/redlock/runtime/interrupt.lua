--- Ctrl-C in a program of luajit: it raises an error at any instruction.

local error, find, type = error, string.find, type

local _M = {}

--- Raises a caught interrupt again, as it is meant for the whole program.
-- @param err  what was caught; returns if it is something else
function _M.rethrow(err)
    if type(err) == "string" and find(err, "interrupted!$") then
        error(err, 0)
    end
end

return _M
