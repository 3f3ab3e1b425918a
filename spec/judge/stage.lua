-- Servers with a cause on some of them, and the commands that are asked there.
local build = require "spec.support.build"
local lua = require "spec.support.lua"
local proc = require "spec.support.proc"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"
local tls = require "spec.support.tls"

local _M = {}
_M.__index = _M

-- The test itself uses a renamed command by its new name.
local function call_as(server, command)
    local call = server.call
    function server.call(its, word, ...)
        return call(its, its.opts.args and word == command and "gone" or word, ...)
    end
end

-- One server; with the cause if it is one of the first k. All have TLS where a certificate is one.
local function start(self, cause, i)
    local has = i <= self.k
    local opts = { new = true, args = has and cause.args or cause.others,
        clocks = has and cause.clocks }
    if not cause.certificate then
        return redis.server(opts)
    end
    local its = tls.server(self.certificates, has and cause.certificate or "good")
    its.uri = its.tls_uri
    return its
end

--- Starts n servers, of which the first k have the cause.
function _M.new(cause, k, n)
    local self = setmetatable({ n = n, k = k, name = "judge", max_lease = cause.max_lease or 3,
        dir = scope.tmpdir(), settings = { user = "app", password = "pw", timeout = 1 } }, _M)
    if cause.certificate then
        self.certificates = tls.certificates()
        self.settings.ca_file = self.certificates .. "/ca.crt"
    end
    for i = 1, n do
        self[i] = start(self, cause, i)
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

-- One more server; beside: admitted like that one, for a balancer before both.
function _M:another(beside)
    local its = redis.server { new = true }
    if beside then
        its:user("app", "on", ">pw", "~*", "&*", "+@all")
        its:call("CONFIG", "SET", "appendonly", "yes")
        its = self.n > 1 and its:admit(self.max_lease, self.name) or its
        for _, server in ipairs { its, beside } do           -- a younger one may have restarted
            sys.eventually(function()
                return tonumber(server:call("INFO", "server"):match "uptime_in_seconds:(%d+)") > 2
            end)
        end
    end
    return its
end

-- Writes the file with the settings of all commands. Returns whether it is another one.
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
    local text, was = table.concat(lines, "\n") .. "\n", self.conf
    self.conf = text
    sys.write_file(self.dir .. "/conf", text)
    assert(sys.sh("chmod 600 " .. self.dir .. "/conf"))
    return text ~= was
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

local function look(p)
    if not p.status and not p:alive() then
        p.status, p.took = p:wait(), sys.now() - p.began
    end
    return p.status
end

--- Awaits the end of a command, until `ends`; later it is asked to end. others: a list of commands
-- that run beside it, whose ends are noticed, too.
function _M.finish(p, ends, others)
    while not look(p) do
        for _, other in ipairs(others or {}) do
            look(other)
        end
        if sys.now() > ends then
            p:kill "TERM"
            p:wait(20)
        else
            sys.sleep(0.005)
        end
    end
    if not p.read then
        local rest = (p:read_all(5) or ""):gsub("/redlock%-%w+/", "/")     -- may look like a word
        p.text, p.read = (p.text or "") .. "\n" .. rest, true
    end
    return p
end

function _M:init(...)
    return _M.finish(self:start { "init", ... }, sys.now() + 30)
end

return _M
