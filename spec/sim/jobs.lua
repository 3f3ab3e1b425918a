--- Work in several processes: how many, and how long it takes.

local _M = {}

--- How many processors there are.
function _M.cores()
    local pipe = io.popen "nproc"
    local n = pipe:read "*n"
    pipe:close()
    return n
end

--- Seconds since the machine was started.
function _M.now()
    local file = io.open "/proc/uptime"
    local at = file:read "*n"
    file:close()
    return at
end

return _M
