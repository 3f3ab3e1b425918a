--- Functions of users that run in the middle of something: what they call must not wait, on no
-- host, and answers `phase` where it would have to.

local pcall, setmetatable = pcall, setmetatable
local running = coroutine.running

local _M = {}

local MAIN = {}
local count, inside = 0, setmetatable({}, { __mode = "k" })

--- Calls fn(...), which must not wait.
-- @return as pcall(), one result at most
function _M.call(fn, ...)
    local co = running() or MAIN
    local before = inside[co]
    inside[co], count = true, count + 1
    local ok, result = pcall(fn, ...)
    inside[co], count = before, count - 1
    return ok, result
end

--- Whether the caller is such a function.
function _M.applies()
    return count > 0 and inside[running() or MAIN] == true
end

return _M
