-- Marks: what clients did and when, as JSON over a unix datagram socket to the recorder.
--
-- Times are milliseconds of CLOCK_MONOTONIC by the kernel itself, whatever a shim tells the
-- library: on one host it is one clock for all.
local cjson = require "cjson"
local ffi = require "ffi"
local sys = require "spec.support.sys"

local C = ffi.C

local _M = {}

if not pcall(ffi.typeof, "struct chaos_sockaddr_un") then
    ffi.cdef [[
    struct chaos_sockaddr_un { uint16_t family; char path[108]; };
    long chaos_clock(long, int, struct sup_timespec *) __asm__("syscall");
    int chaos_connect(int, const struct chaos_sockaddr_un *, unsigned) __asm__("connect");
    int chaos_bind(int, const struct chaos_sockaddr_un *, unsigned) __asm__("bind");
    int chaos_open(const char *, int, int) __asm__("open");
    void *chaos_mmap(void *, size_t, int, int, int, long) __asm__("mmap");
    ]]
end

local SYS_clock_gettime = ({ x64 = 228, arm64 = 113 })[jit.arch]
local CLOCK_MONOTONIC = 1
local AF_UNIX, SOCK_DGRAM, SOCK_CLOEXEC = 1, 2, 0x80000
local O_RDWR, PROT_READ_WRITE, MAP_SHARED = 2, 3, 1

local time = ffi.new "struct sup_timespec"

--- Milliseconds of the true clock.
function _M.now()
    C.chaos_clock(SYS_clock_gettime, CLOCK_MONOTONIC, time)
    return tonumber(time.sec) * 1e3 + tonumber(time.nsec) / 1e6
end

--- A list of marks by their times; those of one time stay in order.
function _M.in_order(marks)
    local items, sorted = {}, {}
    for i, m in ipairs(marks) do
        items[i] = { m = m, t = m.at or m.b or m.a, i = i }
    end
    table.sort(items, function(a, b)
        if a.t ~= b.t then
            return a.t < b.t
        end
        return a.i < b.i
    end)
    for i, item in ipairs(items) do
        sorted[i] = item.m
    end
    return sorted
end

local function address(path)
    assert(#path < 108, "the path of a socket has at most 107 bytes")
    return ffi.new("struct chaos_sockaddr_un", { family = AF_UNIX, path = path })
end

local function socket()
    return C.sup_socket(AF_UNIX, SOCK_DGRAM + SOCK_CLOEXEC, 0)
end

--- @return the descriptor of a socket at this path
function _M.receiver(path)
    local fd, to = socket(), address(path)
    assert(C.chaos_bind(fd, to, ffi.sizeof(to)) == 0, "cannot bind " .. path)
    return fd
end

--- @return a function that sends a table as one mark; it waits while the queue is full
function _M.sender(path)
    local fd, to = socket(), address(path)
    assert(C.chaos_connect(fd, to, ffi.sizeof(to)) == 0, "no recorder at " .. path)
    return function(mark)
        local text = cjson.encode(mark)
        while C.sup_send(fd, text, #text, 0) ~= #text do
            if ffi.errno() ~= 4 then             -- EINTR
                error("the recorder is gone: " .. sys.strerror())
            end
        end
    end
end

--- An array of 64-bit numbers that processes share.
function _M.shared(path)
    local fd = C.chaos_open(path, O_RDWR, 0)
    assert(fd >= 0, path)
    local p = C.chaos_mmap(nil, 4096, PROT_READ_WRITE, MAP_SHARED, fd, 0)
    C.sup_close(fd)
    return ffi.cast("volatile int64_t *", p)
end

return _M
