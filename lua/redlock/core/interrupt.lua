--- Ctrl-C in a program of luajit, which raises an error wherever the program is.

local error, find, type = error, string.find, type

local _M = {}

--- Raises it once more where somebody caught it: it is meant for the whole program.
-- @param err  what was caught; anything else is left to the caller
function _M.rethrow(err)
    if type(err) == "string" and find(err, "interrupted!$") then
        error(err, 0)
    end
end

return _M
