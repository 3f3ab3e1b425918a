-- The command `redlock`, as people start it.
local lua = require "spec.support.lua"
local proc = require "spec.support.proc"
local redis = require "spec.support.redis"
local sys = require "spec.support.sys"

local _M = {}

local ROOT = lua.env().LUA_CPATH:match "^(.-)/build/"
_M.REDLOCK = ROOT .. "/lua/redlock/cli/redlock"

-- Starts `redlock ...` for the servers of a cluster; opts: env, stderr, argv_prefix and so on.
function _M.start(cluster, home, opts, ...)
    local spec = { stdin = "null", stdout = "pipe", stderr = "stdout" }
    for name, value in pairs(opts) do
        spec[name] = value
    end
    spec.env = { REDLOCK_CLUSTER = not cluster.unnamed and redis.CLUSTER,
        REDLOCK_NODES = table.concat(cluster:uris(), " "), HOME = home,
        XDG_CONFIG_HOME = false, REDLOCK_CONFIG = false }
    for name, value in pairs(opts.env or {}) do
        spec.env[name] = value
    end
    for _, words in ipairs { opts.argv_prefix or {}, { _M.REDLOCK, ... } } do
        for _, word in ipairs(words) do
            spec[#spec + 1] = word
        end
    end
    return proc.spawn(spec)
end

-- Words of a command line, and behind them a script of the shell as what is to be run.
function _M.script(text, ...)
    local words = { ... }
    for _, word in ipairs { "--", "sh", "-c", text } do
        words[#words + 1] = word
    end
    return unpack(words)
end

-- Its exit status and what it says.
function _M.ends(p, timeout)
    local text = p:read_all(timeout or 30)
    return p:wait(10), text
end

-- start(opts, ...), and what ends() says of it without opts, for what get() returns by then: a
-- cluster and a home.
function _M.on(get)
    local function start(opts, ...)
        local cluster, home = get()
        return _M.start(cluster, home, opts, ...)
    end
    return start, function(...) return _M.ends(start({}, ...)) end
end

-- Whether a process has ended, if only just.
function _M.has_ended(pid)
    local stat = sys.read_file("/proc/" .. pid .. "/stat")
    return not stat or stat:match "%) (%a)" == "Z"
end

-- Waits for that.
function _M.gone(pid, timeout)
    return sys.eventually(function() return _M.has_ended(pid) end, timeout or 10,
        "process " .. pid .. " to end")
end

return _M
