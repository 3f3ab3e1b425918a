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

--- Whether the caller runs outside of such functions.
function _M.may_wait()
    return count == 0 or not inside[running() or MAIN]
end

return _M
