-- Servers with a cause on some of them, and the commands that are asked there.
local build = require "spec.support.build"
local lua = require "spec.support.lua"
local proc = require "spec.support.proc"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}
_M.__index = _M

-- The test itself uses a renamed command by its new name.
local function call_as(server, command)
    local call = server.call
    function server.call(its, word, ...)
        return call(its, its.opts.args and word == command and "gone" or word, ...)
    end
end

--- Starts n servers, of which the first k have the cause.
function _M.new(cause, k, n)
    local self = setmetatable({ n = n, k = k, name = "judge", max_lease = 3, others = {},
        dir = scope.tmpdir(), settings = { user = "app", password = "pw", timeout = 1 } }, _M)
    for i = 1, n do
        self[i] = redis.server { new = true, args = i <= k and cause.args or nil }
        self[i]:user("app", "on", ">pw", "~*", "&*", "+@all")
        if i <= k and cause.renamed then
            call_as(self[i], cause.renamed)
        end
        if n > 1 and not (i <= k and cause.bare) then
            self[i]:admit(self.max_lease, self.name)
        else
            self[i]:call("CONFIG", "SET", "appendonly", "yes")
        end
    end
    for i = 1, k do
        cause.make(self[i], self)
    end
    return self
end

--- A proxy that clients take to a server.
function _M.proxy(server)
    server.way = proxy.proxy(server.port)
    server.uri = server.way.uri
    return server.way
end

function _M:another()
    self.others[1] = self.others[1] or redis.server { new = true }
    return self.others[1]
end

-- Writes the file with the settings of all commands.
function _M:configure()
    local nodes = {}
    for i = 1, self.n do
        nodes[i] = self[i].uri
    end
    local lines = { "nodes = " .. table.concat(nodes, " "), "cluster = " .. self.name,
        "max_lease = " .. self.max_lease, "lease = " .. self.max_lease }
    for name, value in pairs(self.settings) do
        lines[#lines + 1] = name .. " = " .. value
    end
    sys.write_file(self.dir .. "/conf", table.concat(lines, "\n") .. "\n")
    assert(sys.sh("chmod 600 " .. self.dir .. "/conf"))
end

local REDLOCK = build.root .. "/lua/redlock/cli/redlock"

-- Begins a command; its process has `began` and, once it has ended, `took`, `status` and `text`.
function _M:start(words)
    local spec = { stdin = "null", stdout = "pipe", stderr = "stdout",
        env = { REDLOCK_CONFIG = self.dir .. "/conf", HOME = self.dir, REDLOCK_NODES = false,
            REDLOCK_CLUSTER = false } }
    local p
    if type(words) == "string" then
        p = lua.run(words, spec)
    else
        spec[1] = REDLOCK
        for _, word in ipairs(words) do
            spec[#spec + 1] = word
        end
        p = proc.spawn(spec)
    end
    p.began = sys.now()
    return p
end

--- Awaits the end of a command, until `ends`; later it is asked to end.
function _M.finish(p, ends)
    while not p.status do
        p.status = not p:alive() and p:wait() or nil
        p.took = sys.now() - p.began
        if not p.status and sys.now() > ends then
            p.late = true
            p:kill "TERM"
            p.status = p:wait(20)
        elseif not p.status then
            sys.sleep(0.005)
        end
    end
    if not p.read then
        p.text, p.read = (p.text or "") .. "\n" .. (p:read_all(5) or ""), true
    end
    return p
end

function _M:init(...)
    return _M.finish(self:start { "init", ... }, sys.now() + 30)
end

return _M
