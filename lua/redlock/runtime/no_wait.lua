--- Runs users' functions inside other calls, where they must not wait, on any host: a call of the
-- library that would have to wait returns the error `phase`.

local pcall, setmetatable = pcall, setmetatable
local running = coroutine.running

local _M = {}

local MAIN = {}
local count, inside = 0, setmetatable({}, { __mode = "k" })

--- Calls fn(...), which must not wait.
-- @return as pcall(), with at most one result
function _M.call(fn, ...)
    local co = running() or MAIN
    local before = inside[co]
    inside[co], count = true, count + 1
    local ok, result = pcall(fn, ...)
    inside[co], count = before, count - 1
    return ok, result
end

--- Whether the caller runs inside such a function.
function _M.applies()
    return count > 0 and inside[running() or MAIN] == true
end

return _M
