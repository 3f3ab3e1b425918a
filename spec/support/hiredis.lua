-- A synchronous connection to a Redis server.
local ffi = require "ffi"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}
_M.__index = _M

local found, lib = pcall(ffi.load, "hiredis")
if not found then
    lib = ffi.load "libhiredis.so.0.14"
end

if not pcall(ffi.typeof, "struct sup_reply") then
    ffi.cdef [[
    struct sup_timeval { long sec, usec; };
    struct sup_reply {
        int type;
        long long integer;
        size_t len;
        char *str;
        size_t elements;
        struct sup_reply **element;
    };
    struct sup_context { int err; char errstr[128]; int fd; };

    struct sup_context *sup_connect(const char *, int, struct sup_timeval)
        __asm__("redisConnectWithTimeout");
    int sup_set_timeout(struct sup_context *, struct sup_timeval)
        __asm__("redisSetTimeout");
    struct sup_reply *sup_command(struct sup_context *, int, const char **,
                                  const size_t *) __asm__("redisCommandArgv");
    void sup_free_reply(struct sup_reply *) __asm__("freeReplyObject");
    void sup_free(struct sup_context *) __asm__("redisFree");
    ]]
end

local STRING, ARRAY, INTEGER, STATUS, ERROR = 1, 2, 3, 5, 6

-- Lua value; nil, message for an error (inside an array: { err = message }).
local function convert(reply)
    if reply.type == STRING or reply.type == STATUS then
        return ffi.string(reply.str, reply.len)
    elseif reply.type == INTEGER then
        return tonumber(reply.integer)
    elseif reply.type == ERROR then
        return nil, ffi.string(reply.str, reply.len)
    elseif reply.type == ARRAY then
        local list = {}
        for i = 1, tonumber(reply.elements) do
            local value, err = convert(reply.element[i - 1])
            list[i] = err and { err = err } or value
        end
        return list
    end
end

function _M.connect(port, timeout)
    local whole, part = math.modf(timeout or 2)
    local tv = ffi.new("struct sup_timeval", whole, part * 1e6)
    local ctx = lib.sup_connect("127.0.0.1", port, tv)
    if ctx.err ~= 0 then
        local err = ffi.string(ctx.errstr)
        lib.sup_free(ctx)
        return nil, "connection: " .. err
    end
    lib.sup_set_timeout(ctx, tv)
    local self = setmetatable({ ctx = ctx }, _M)
    scope.add_conn(self)
    return self
end

function _M:close()
    if self.ctx then
        lib.sup_free(self.ctx)
        self.ctx = nil
    end
end

-- Nothing is expected between two calls: something to read is an end of file.
function _M:usable()
    return self.ctx ~= nil and not sys.ready(self.ctx.fd, 0)
end

function _M:call(...)
    if not self.ctx then
        return nil, "connection: closed before"
    end
    local n = select("#", ...)
    local args = { ... }
    local argv = ffi.new("const char *[?]", n)
    local lens = ffi.new("size_t[?]", n)
    for i = 1, n do
        args[i] = tostring(args[i])
        argv[i - 1], lens[i - 1] = args[i], #args[i]
    end
    local reply = lib.sup_command(self.ctx, n, argv, lens)
    if reply == nil then
        local err = ffi.string(self.ctx.errstr)
        self:close()
        return nil, "connection: " .. err
    end
    local value, err = convert(reply)
    lib.sup_free_reply(reply)
    return value, err
end

return _M
