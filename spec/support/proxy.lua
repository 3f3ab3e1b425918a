-- Servers that misbehave: a proxy with switchable faults, and a hostile peer.
local build = require "spec.support.build"
local proc = require "spec.support.proc"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

-- Starts a program that listens on the port it is given as first argument. Whether it does.
local function listens(self, program, ...)
    local argv = { build.program(program), self.port, ... }
    argv.stdin, argv.stdout = "pipe", "pipe"
    self.proc = proc.spawn(argv)
    self.pid = self.proc.pid
    return self.proc:read_line() ~= nil
end

local function start(class, program, ...)
    local self = setmetatable({}, class)
    for _ = 1, 5 do
        self.port = sys.free_port()
        self.uri = "redis://127.0.0.1:" .. self.port
        if listens(self, program, ...) then
            return self
        end
    end
    error("cannot start " .. program)
end

-- Sends a command line and returns the number it is answered with.
local function command(self, ...)
    local line = table.concat({ ... }, " ")
    assert(self.proc:write(line .. "\n"))
    local answer, err = self.proc:read_line()
    return tonumber(answer and answer:match "^ok (%d+)$")
        or error(("%s: %s"):format(line, answer or err))
end

local function stop(self)
    self.proc:kill "KILL"
    self.proc:wait()
    self.proc:close()
end

local function flag(on)
    return on and 1 or 0
end

local function hex(bytes)
    return (bytes:gsub(".", function(c)
        return ("%02x"):format(c:byte())
    end))
end

local Proxy = { stop = stop }
Proxy.__index = Proxy

-- dir is "up" (client to server), "down" or "both".

-- Every chunk that arrives from now on is passed on ms later, in order.
function Proxy:delay(dir, ms)
    command(self, "delay", dir, ms)
end

-- So many of 1000 chunks are passed on least to most ms later, and what follows them.
function Proxy:spread(dir, permille, least, most)
    command(self, "spread", dir, permille, ("%d-%d"):format(least, most))
end

-- So many of 1000 chunks end their connection with RST.
function Proxy:reset(permille)
    command(self, "reset", permille)
end

-- So many of 1000 chunks from the server are garbled.
function Proxy:lie(permille)
    command(self, "lie", permille)
end

-- Of the generator behind spread(), reset() and lie().
function Proxy:seed(n)
    command(self, "seed", n)
end

-- Ends one direction, "up" or "down", of all connections with FIN.
function Proxy:half_close(dir)
    command(self, "half_close", dir)
end

-- Bytes are discarded, and so is what follows them on their connection, for ever: a request
-- or an answer that is missing in the middle is nothing TCP does.
function Proxy:drop(dir, on)
    command(self, "drop", dir, flag(on))
end

-- Bytes, and the end of a connection, are kept until this is switched off.
function Proxy:hold(dir, on)
    command(self, "hold", dir, flag(on))
end

-- Limits each direction of each connection; 0 for no limit.
function Proxy:bandwidth(bytes_per_second)
    command(self, "bandwidth", bytes_per_second)
end

-- Ends all connections with RST.
function Proxy:cut()
    command(self, "cut")
end

-- Ends all connections with FIN.
function Proxy:close()
    command(self, "close")
end

-- Once: passes on the chunk that contains pattern, swallows the reply and
-- ends that connection with RST.
function Proxy:cut_after_request(pattern)
    command(self, "cut_after_request", hex(pattern))
end

-- How many replies were cut off.
function Proxy:fired()
    return command(self, "fired")
end

-- Keeps every chunk that contains pattern and what follows on its connection
-- until release(), even if the client hangs up.
function Proxy:hold_request(pattern)
    command(self, "hold_request", hex(pattern))
end

function Proxy:release()
    command(self, "release")
end

-- How many connections have a chunk kept by hold_request().
function Proxy:held()
    return command(self, "held")
end

-- New connections get a RST.
function Proxy:refuse(on)
    command(self, "refuse", flag(on))
end

-- New connections are not even established.  Those attempted meanwhile are
-- when the kernel tries again, up to some seconds after this is switched off.
function Proxy:blackhole_connect(on)
    command(self, "blackhole_connect", flag(on))
end

-- How many connections were accepted so far.
function Proxy:count()
    return command(self, "count")
end

-- Each connection goes to the next one of the targets.
function _M.proxy(...)
    return start(Proxy, "proxy", ...)
end

local Late = { stop = stop }
Late.__index = Late

-- Starts it again on its port, when its server has been started again.
function Late:restart()
    local old = self.proc
    assert(listens(self, "proxy", self.target))
    scope.replace_proc(old)
    Proxy.delay(self, "up", self.ms)
end

-- Until nothing is on its way.
function Late:await_idle()
    sys.eventually(function() return command(self, "carried") == 0 end, 20, "idle connections")
end

-- What makes a server late: requests arrive there ms later. When the server is killed, so must this
-- be: nobody listens then.
function _M.late(target, ms)
    local self = start(Late, "proxy", target)
    self.target, self.ms = target, ms
    Proxy.delay(self, "up", ms)
    return self
end

local Hostile = { stop = stop }
Hostile.__index = Hostile

function Hostile:accepted()
    return command(self, "accepted")
end

-- greet: sent to every new client.  reply: sent to a client that has sent
-- something, repeat_ times, one byte every drip ms.  close: end the connection
-- after all that, rather than staying silent.
function _M.hostile(opts)
    local dir = scope.tmpdir()
    local function save(name)
        if not opts[name] then
            return "-"
        end
        sys.write_file(dir .. "/" .. name, opts[name])
        return dir .. "/" .. name
    end
    return start(Hostile, "hostile", save "greet", save "reply",
        opts.repeat_ or 1, opts.drip or 0, flag(opts.close))
end

return _M
