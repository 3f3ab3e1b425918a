-- The reading end of a child's output.
local ffi = require "ffi"
local sys = require "spec.support.sys"

local C = ffi.C

local _M = {}
_M.__index = _M

local SIZE = 65536
local chunk = ffi.new("char[?]", SIZE)

function _M.new(fd)
    return setmetatable({ fd = fd, buf = "" }, _M)
end

function _M:close()
    if self.fd then
        C.sup_close(self.fd)
        self.fd = nil
    end
end

-- Reads what there is; nil, "timeout" or nil, "eof" if there is nothing.
local function fill(self, deadline)
    if not self.fd then
        return nil, "eof"
    elseif not sys.ready(self.fd, deadline) then
        return nil, "timeout"
    end
    local n = tonumber(C.sup_read(self.fd, chunk, SIZE))
    if n <= 0 then
        self:close()
        return nil, "eof"
    end
    self.buf = self.buf .. ffi.string(chunk, n)
    return true
end

function _M:read_line(timeout)
    local deadline = sys.now() + sys.limit(timeout)
    local ok, err = true, nil
    while ok do
        local line, rest = self.buf:match "^([^\n]*)\n(.*)$"
        if line then
            self.buf = rest
            return line
        end
        ok, err = fill(self, deadline)
    end
    if err == "eof" and self.buf ~= "" then
        local line = self.buf
        self.buf = ""
        return line
    end
    return nil, err
end

function _M:read_all(timeout)
    local deadline = sys.now() + sys.limit(timeout)
    local ok, err
    repeat
        ok, err = fill(self, deadline)
    until not ok
    if err ~= "eof" then
        return nil, err
    end
    local data = self.buf
    self.buf = ""
    return data
end

return _M
