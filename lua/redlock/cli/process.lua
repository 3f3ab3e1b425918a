--- Processes and signals for the command: fork, exec, wait, by FFI. Not part of the library.

local ffi = require "ffi"
local bit = require "bit"

local C = ffi.C
local _M = {}

-- Names of our own, bound to the system's: others may have declared them in their way.
ffi.cdef [[
struct rlc_time { long sec, nsec; };
struct rlc_set { unsigned long bits[16]; };
struct rlc_info { int signo, error, code; int pad[29]; };
struct rlc_address { uint16_t family; uint8_t port[2], address[4]; char zero[8]; };
int rlc_fork(void) __asm__("fork");
int rlc_execvp(const char *, const char *const *) __asm__("execvp");
void rlc_exit(int) __asm__("_exit");
int rlc_waitpid(int, int *, int) __asm__("waitpid");
int rlc_kill(int, int) __asm__("kill");
int rlc_getpid(void) __asm__("getpid");
int rlc_getppid(void) __asm__("getppid");
int rlc_setpgid(int, int) __asm__("setpgid");
int rlc_prctl(int, unsigned long, unsigned long, unsigned long, unsigned long)
    __asm__("prctl");
int rlc_setenv(const char *, const char *, int) __asm__("setenv");
int rlc_unsetenv(const char *) __asm__("unsetenv");
int rlc_open(const char *, int, ...) __asm__("open");
int rlc_dup2(int, int) __asm__("dup2");
int rlc_close(int) __asm__("close");
int rlc_isatty(int) __asm__("isatty");
int rlc_sigprocmask(int, const struct rlc_set *, struct rlc_set *) __asm__("sigprocmask");
int rlc_sigtimedwait(const struct rlc_set *, struct rlc_info *, const struct rlc_time *)
    __asm__("sigtimedwait");
int rlc_sigaddset(struct rlc_set *, int) __asm__("sigaddset");
int rlc_socket(int, int, int) __asm__("socket");
int rlc_bind(int, const struct rlc_address *, unsigned) __asm__("bind");
int rlc_getsockname(int, struct rlc_address *, unsigned *) __asm__("getsockname");
char *rlc_strerror(int) __asm__("strerror");
]]

_M.HUP, _M.INT, _M.QUIT, _M.KILL, _M.USR1, _M.USR2, _M.TERM, _M.CHLD =
    1, 2, 3, 9, 10, 12, 15, 17
local CAUGHT = { _M.HUP, _M.INT, _M.QUIT, _M.USR1, _M.USR2, _M.TERM, _M.CHLD }

local SIG_BLOCK, SIG_SETMASK, SI_KERNEL = 0, 2, 0x80
local PR_SET_PDEATHSIG, WNOHANG, O_WRONLY, ENOENT = 1, 1, 1, 2

local caught, before = ffi.new "struct rlc_set", ffi.new "struct rlc_set"

--- From now on signals wait to be fetched with signal().
function _M.catch()
    for _, signo in ipairs(CAUGHT) do
        C.rlc_sigaddset(caught, signo)
    end
    C.rlc_sigprocmask(SIG_BLOCK, caught, before)
end

--- The next signal.
-- @param seconds  how long to wait for it
-- @return its number and whether the terminal sent it (to the whole foreground group); nil:
--   none came
function _M.signal(seconds)
    local info = ffi.new "struct rlc_info"
    local whole = math.floor(seconds)
    local t = ffi.new("struct rlc_time", whole, (seconds - whole) * 1e9)
    local signo = C.rlc_sigtimedwait(caught, info, t)
    if signo > 0 then
        return signo, info.code == SI_KERNEL
    end
end

--- What the child does between fork and exec; never returns.
local function become(argv, opts, parent)
    C.rlc_prctl(PR_SET_PDEATHSIG, _M.KILL, 0, 0, 0)
    if C.rlc_getppid() ~= parent then      -- it died before we asked
        C.rlc_exit(125)
    end
    if opts.group then
        C.rlc_setpgid(0, 0)
    end
    for name, value in pairs(opts.env or {}) do
        if value then
            C.rlc_setenv(name, value, 1)
        else
            C.rlc_unsetenv(name)
        end
    end
    if opts.quiet then
        local null = C.rlc_open("/dev/null", O_WRONLY)
        C.rlc_dup2(null, 1)
        C.rlc_dup2(null, 2)
    end
    C.rlc_sigprocmask(SIG_SETMASK, before, nil)
    local list = ffi.new("const char *[?]", #argv + 1)
    for i = 1, #argv do
        list[i - 1] = argv[i]
    end
    C.rlc_execvp(argv[1], list)
    local errno = ffi.errno()
    io.stderr:write("redlock: ", argv[1], ": ", ffi.string(C.rlc_strerror(errno)), "\n")
    C.rlc_exit(errno == ENOENT and 127 or 126)
end
if jit then
    jit.off(become)
end

--- Starts a program, which is killed when this process dies.
-- @param argv  its name, looked up on the PATH, and its arguments
-- @param opts  env: variables to set; group: in a process group of its own; quiet: without
--   output
-- @return its process id; or nil and why not
function _M.spawn(argv, opts)
    io.stdout:flush()
    local parent = C.rlc_getpid()
    local pid = C.rlc_fork()
    if pid == 0 then
        become(argv, opts or {}, parent)
    elseif pid < 0 then
        return nil, ffi.string(C.rlc_strerror(ffi.errno()))
    end
    return pid
end

--- @return the exit status of a child that has ended (128 + n: by signal n); nil: it runs
function _M.reap(pid)
    local status = ffi.new "int[1]"
    if C.rlc_waitpid(pid, status, WNOHANG) ~= pid then
        return nil
    end
    local signo = bit.band(status[0], 0x7f)
    return signo == 0 and bit.band(bit.rshift(status[0], 8), 0xff) or 128 + signo
end

--- Sends a signal; to a whole group if the id is negative.
function _M.kill(pid, signo)
    return C.rlc_kill(pid, signo) == 0
end

function _M.is_terminal(fd)
    return C.rlc_isatty(fd) == 1
end

--- @return a TCP port on 127.0.0.1 that nobody used a moment ago
function _M.free_port()
    local address = ffi.new("struct rlc_address", { family = 2, address = { 127, 0, 0, 1 } })
    local size = ffi.new("unsigned[1]", ffi.sizeof(address))
    local fd = C.rlc_socket(2, 1, 0)
    C.rlc_bind(fd, address, size[0])
    C.rlc_getsockname(fd, address, size)
    C.rlc_close(fd)
    return address.port[0] * 256 + address.port[1]
end

return _M
