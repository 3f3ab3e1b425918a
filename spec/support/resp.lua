-- A synchronous connection to a Redis server.
local ffi = require "ffi"
local bit = require "bit"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local C = ffi.C

local _M = {}
_M.__index = _M

local POLLOUT, MSG_NOSIGNAL, MSG_DONTWAIT, EAGAIN = 4, 0x4000, 0x40, 11
local SIZE = 65536
local chunk = ffi.new("char[?]", SIZE)

-- What ends a connection is raised as a table, which call() catches.
local function broken(why)
    error({ why = why }, 0)
end

local function send(self, data, deadline)
    local bytes, at = ffi.cast("const char *", data), 0
    while at < #data do
        if not sys.ready(self.fd, deadline, POLLOUT) then
            broken "timeout"
        end
        local n = tonumber(C.sup_send(self.fd, bytes + at, #data - at,
            bit.bor(MSG_NOSIGNAL, MSG_DONTWAIT)))
        if n >= 0 then
            at = at + n
        elseif ffi.errno() ~= EAGAIN then
            broken(sys.strerror())
        end
    end
end

local function fill(self, deadline)
    if not sys.ready(self.fd, deadline) then
        broken "timeout"
    end
    local n = tonumber(C.sup_read(self.fd, chunk, SIZE))
    if n < 0 then
        broken(sys.strerror())
    elseif n == 0 then
        broken "closed by the server"
    end
    self.input = self.input:sub(self.at) .. ffi.string(chunk, n)
    self.at = 1
end

local function line(self, deadline)
    local stop = self.input:find("\r\n", self.at, true)
    while not stop do
        fill(self, deadline)
        stop = self.input:find("\r\n", self.at, true)
    end
    local text = self.input:sub(self.at, stop - 1)
    self.at = stop + 2
    return text
end

local function bulk(self, length, deadline)
    while #self.input - self.at + 1 < length + 2 do
        fill(self, deadline)
    end
    local text = self.input:sub(self.at, self.at + length - 1)
    self.at = self.at + length + 2
    return text
end

-- Lua value; nil, message for an error (inside an array: { err = message }).
local function reply(self, deadline)
    local kind, rest = line(self, deadline):match "^([-+:$*])(.*)$"
    local number = tonumber(rest)
    if kind == "+" then
        return rest
    elseif kind == "-" then
        return nil, rest
    elseif not number then
        broken "not RESP2"
    elseif kind == ":" then
        return number
    elseif number < 0 then
        return nil
    elseif kind == "$" then
        return bulk(self, number, deadline)
    end
    local list = {}
    for i = 1, number do
        local value, err = reply(self, deadline)
        list[i] = err and { err = err } or value
    end
    return list
end

-- timeout: of a call, in seconds.
function _M.connect(port, timeout)
    local fd, err = sys.connect(port, sys.now() + (timeout or 2))
    if not fd then
        return nil, "connection: " .. err
    end
    local self = setmetatable({ fd = fd, timeout = timeout or 2, input = "", at = 1 }, _M)
    scope.add_conn(self)
    return self
end

function _M:close()
    if self.fd then
        C.sup_close(self.fd)
        self.fd = nil
    end
end

-- Nothing is expected between two calls: something to read is an end of file.
function _M:usable()
    return self.fd ~= nil and not sys.ready(self.fd, 0)
end

local function exchange(self, words)
    local deadline = sys.now() + self.timeout
    send(self, table.concat(words), deadline)
    return reply(self, deadline)
end

function _M:call(...)
    if not self.fd then
        return nil, "connection: closed before"
    end
    local n = select("#", ...)
    local words = { ("*%d\r\n"):format(n) }
    for i = 1, n do
        local word = tostring((select(i, ...)))
        words[i + 1] = ("$%d\r\n%s\r\n"):format(#word, word)
    end
    local ok, value, err = pcall(exchange, self, words)
    if not ok then
        self:close()
        return nil, "connection: " .. (type(value) == "table" and value.why or error(value, 0))
    end
    return value, err
end

return _M
