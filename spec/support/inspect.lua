-- What a process uses, by default this one.
local ffi = require "ffi"
local sys = require "spec.support.sys"

local C = ffi.C

local _M = {}

local function status(pid, name)
    local text = assert(sys.read_file(("/proc/%s/status"):format(pid or "self")))
    return tonumber(text:match("\n" .. name .. ":%s*(%d+)"))
end

-- The letter of ps: "T" for stopped; nil when there is no such process.
function _M.state(pid)
    local stat = sys.read_file(("/proc/%d/stat"):format(pid))
    return stat and stat:match "%) (%a)"
end

-- Resident memory in KiB.
function _M.rss(pid)
    return status(pid, "VmRSS")
end

function _M.threads(pid)
    return status(pid, "Threads")
end

-- Open file descriptors.
function _M.fds(pid)
    local dir = C.sup_opendir(("/proc/%s/fd"):format(pid or "self"))
    assert(dir ~= nil, "no such process")
    local n = -2 -- . and ..
    while C.sup_readdir(dir) ~= nil do
        n = n + 1
    end
    C.sup_closedir(dir)
    local own = not pid or pid == C.sup_getpid()
    return own and n - 1 or n -- the directory itself was open, too
end

return _M
