-- System calls, time and the file system.
local ffi = require "ffi"
local bit = require "bit"

local C = ffi.C

local _M = {}

-- Names of our own, bound to the system's by asm labels, cannot clash with the
-- declarations of the code under test.  busted reloads modules for every spec
-- file, the declarations outlive that.
if not pcall(ffi.typeof, "struct sup_pollfd") then
    ffi.cdef [[
    struct sup_timespec { long sec, nsec; };
    struct sup_pollfd { int fd; short events, revents; };
    struct sup_sockaddr_in {
        uint16_t family; uint8_t port[2], addr[4]; char zero[8];
    };
    struct sup_sockaddr_un { uint16_t family; char path[108]; };
    struct sup_actions { long opaque[32]; };

    int sup_clock_gettime(int, struct sup_timespec *) __asm__("clock_gettime");
    int sup_nanosleep(const struct sup_timespec *, struct sup_timespec *)
        __asm__("nanosleep");
    char *sup_strerror(int) __asm__("strerror");
    int sup_getpid(void) __asm__("getpid");
    int sup_setenv(const char *, const char *, int) __asm__("setenv");
    char *sup_realpath(const char *, char *) __asm__("realpath");
    char *sup_mkdtemp(char *) __asm__("mkdtemp");
    void *sup_opendir(const char *) __asm__("opendir");
    void *sup_readdir(void *) __asm__("readdir");
    int sup_closedir(void *) __asm__("closedir");

    int sup_poll(struct sup_pollfd *, unsigned long, int) __asm__("poll");
    ssize_t sup_read(int, void *, size_t) __asm__("read");
    ssize_t sup_send(int, const void *, size_t, int) __asm__("send");
    int sup_close(int) __asm__("close");
    int sup_socket(int, int, int) __asm__("socket");
    int sup_socketpair(int, int, int, int *) __asm__("socketpair");
    int sup_bind(int, const void *, unsigned) __asm__("bind");
    int sup_connect(int, const void *, unsigned) __asm__("connect");
    int sup_getsockopt(int, int, int, void *, unsigned *) __asm__("getsockopt");

    int sup_kill(int, int) __asm__("kill");
    int sup_wait4(int, int *, int, long *) __asm__("wait4");
    int sup_spawn(int *, const char *, const struct sup_actions *, const void *,
                  const char *const *, const char *const *) __asm__("posix_spawn");
    int sup_actions_init(struct sup_actions *)
        __asm__("posix_spawn_file_actions_init");
    int sup_actions_destroy(struct sup_actions *)
        __asm__("posix_spawn_file_actions_destroy");
    int sup_actions_dup2(struct sup_actions *, int, int)
        __asm__("posix_spawn_file_actions_adddup2");
    int sup_actions_open(struct sup_actions *, int, const char *, int, unsigned)
        __asm__("posix_spawn_file_actions_addopen");
    extern char **sup_environ __asm__("environ");
    ]]
end

local CLOCK_MONOTONIC = 1
local EINTR, EINPROGRESS, POLLOUT, SOL_SOCKET, SO_ERROR = 4, 115, 4, 1, 4
local AF_INET, AF_UNIX, SOCK_STREAM, SOCK_CLOEXEC, SOCK_NONBLOCK = 2, 1, 1, 0x80000, 0x800

local function now()
    local t = ffi.new "struct sup_timespec"
    C.sup_clock_gettime(CLOCK_MONOTONIC, t)
    return tonumber(t.sec) + tonumber(t.nsec) / 1e9
end
_M.now = now

function _M.sleep(seconds)
    local whole = math.floor(seconds)
    local t = ffi.new("struct sup_timespec", whole, (seconds - whole) * 1e9)
    while C.sup_nanosleep(t, t) ~= 0 and ffi.errno() == EINTR do end
end

function _M.strerror(errno)
    return ffi.string(C.sup_strerror(errno or ffi.errno()))
end

-- Sets a variable of this process, and of those that it starts.
function _M.setenv(name, value)
    C.sup_setenv(name, value, 1)
end

local function pack(...)
    return { n = select("#", ...), ... }
end

-- Runs a command of the shell: whether it succeeded. A LuaJIT that is built to be like Lua 5.2
-- tells that in another way.
function _M.sh(command)
    local status = os.execute(command)
    return status == 0 or status == true
end

-- How long something is awaited at most. Below 5 s that is what was asked for: it is seen whether
-- it comes in that time. More is a limit for what never comes, and long enough for a busy machine.
local function limit(timeout, least)
    return timeout and timeout < 5 and timeout or math.max(timeout or least, least)
end

-- Of output and ends of processes.
function _M.limit(timeout)
    return limit(timeout, 60)
end

-- The values of fn() as soon as the first of them is true. A lock that nobody released ends after
-- 30 s, so that what is awaited may not take as long.
function _M.eventually(fn, timeout, what)
    timeout = limit(timeout, 20)
    local began = now()
    repeat
        local looks = now()
        local values = pack(fn())
        if values[1] then
            return unpack(values, 1, values.n)
        end
        local ended = now()
        local waited = ended - began
        local late = waited > timeout
        -- The longer it takes, the less matters when it is seen: looks of all specs use processors,
        -- those that start programs most of all.
        _M.sleep(math.max(math.min(math.max(waited / 20, 0.002), 0.05),
            math.min(3 * (ended - looks), 0.1)))
    until late
    error(("timed out after %g s waiting for %s"):format(
        timeout, what or "a condition"), 2)
end

-- True if fd is ready for events (default: readable) before the deadline.
function _M.ready(fd, deadline, events)
    local p = ffi.new("struct sup_pollfd[1]", { { fd, events or 1, 0 } })
    repeat
        local left = math.max(deadline - now(), 0)
        local n = C.sup_poll(p, 1, math.ceil(left * 1000))
        if n > 0 then
            return true
        end
    until n == 0 or ffi.errno() ~= EINTR
    return false
end

-- Sockets rather than pipes: writing to a dead child must not raise SIGPIPE.
function _M.socketpair()
    local fds = ffi.new "int[2]"
    if C.sup_socketpair(AF_UNIX, bit.bor(SOCK_STREAM, SOCK_CLOEXEC), 0, fds) ~= 0 then
        error("socketpair: " .. _M.strerror())
    end
    return fds[0], fds[1]
end

local reserved = {}           -- the descriptors that do it

local function loopback(port)
    return ffi.new("struct sup_sockaddr_in", { family = AF_INET,
        port = { bit.rshift(port, 8), bit.band(port, 255) }, addr = { 127, 0, 0, 1 } })
end

-- A descriptor that is connected to the port of this machine; nil and an error.
function _M.connect(port, deadline)
    local address = loopback(port)
    local fd = C.sup_socket(AF_INET, bit.bor(SOCK_STREAM, SOCK_CLOEXEC, SOCK_NONBLOCK), 0)
    local errno = C.sup_connect(fd, address, ffi.sizeof(address)) == 0 and 0 or ffi.errno()
    if errno == EINPROGRESS then
        if not _M.ready(fd, deadline, POLLOUT) then
            C.sup_close(fd)
            return nil, "timeout"
        end
        local value, size = ffi.new "int[1]", ffi.new("unsigned[1]", 4)
        C.sup_getsockopt(fd, SOL_SOCKET, SO_ERROR, value, size)
        errno = value[0]
    end
    if errno ~= 0 then
        C.sup_close(fd)
        return nil, _M.strerror(errno)
    end
    return fd
end

local function nobody_listens(port)
    local address = loopback(port)
    local fd = C.sup_socket(AF_INET, bit.bor(SOCK_STREAM, SOCK_CLOEXEC), 0)
    local bound = C.sup_bind(fd, address, ffi.sizeof(address)) == 0
    C.sup_close(fd)
    return bound
end

-- True if the port was free. It is reserved then until release_ports() or the end of this
-- process, also while its server is down: to all processes that ask this function, it is
-- taken. The name of a socket does that: like ports, names without a file are those of a
-- network namespace.
function _M.take_port(port)
    local name = "\0redlock spec port " .. port
    local address = ffi.new("struct sup_sockaddr_un", { family = AF_UNIX })
    ffi.copy(address.path, name, #name)
    local fd = C.sup_socket(AF_UNIX, bit.bor(SOCK_STREAM, SOCK_CLOEXEC), 0)
    assert(fd >= 0, "no descriptor to reserve a port with")
    if C.sup_bind(fd, address, ffi.offsetof(address, "path") + #name) ~= 0
        or not nobody_listens(port) then
        C.sup_close(fd)
        return false
    end
    reserved[#reserved + 1] = fd
    return true
end

function _M.ports_taken()
    return #reserved
end

-- Clients that a test did not close come back to a port for half a minute: to this process it
-- is not given twice, and to others only after a minute.
local left = {}                          -- { fd, until when }: the oldest first

-- All but the n that were taken first.
function _M.release_ports(n)
    local time = now()
    for _ = n + 1, #reserved do
        left[#left + 1] = { table.remove(reserved), time + 60 }
    end
    while left[1] and left[1][2] < time do
        C.sup_close(table.remove(left, 1)[1])
    end
end

-- Below the range for outgoing connections: these could otherwise take the
-- port while its server is down, or even connect to themselves on it.
local ports_tried

function _M.free_port()
    local range = io.open "/proc/sys/net/ipv4/ip_local_port_range"
    local top = math.max(range:read "*n", 20000)
    range:close()
    local random = io.open "/dev/urandom"
    local high, low = random:read(2):byte(1, 2)
    random:close()
    local port
    repeat
        ports_tried = (ports_tried or high * 256 + low) + 1
        port = 10000 + ports_tried % (top - 10000)
    until _M.take_port(port)
    return port
end

function _M.realpath(path)
    local buf = ffi.new "char[4096]"
    if C.sup_realpath(path, buf) == nil then
        error(path .. ": " .. _M.strerror())
    end
    return ffi.string(buf)
end

function _M.mkdtemp()
    local template = (os.getenv "TMPDIR" or "/tmp") .. "/redlock-XXXXXX"
    local buf = ffi.new("char[?]", #template + 1, template)
    if C.sup_mkdtemp(buf) == nil then
        error(template .. ": " .. _M.strerror())
    end
    return ffi.string(buf)
end

function _M.read_file(path)
    local file = io.open(path, "rb")
    local data = file and file:read "*a"
    if file then
        file:close()
    end
    return data
end

-- The lines of a file, as lists of words.
function _M.words_of(path)
    local list = {}
    for line in io.lines(path) do
        local words = { line = line }
        for word in line:gmatch "%S+" do
            words[#words + 1] = word
        end
        list[#list + 1] = words
    end
    return list
end

function _M.write_file(path, data)
    local file = assert(io.open(path, "wb"))
    file:write(data)
    file:close()
end

return _M
