--- Processes and signals for the command: fork, exec, wait, by FFI. Not part of the library.

local args = require "redlock.cli.args"
local ffi = require "ffi"
local bit = require "bit"

local C = ffi.C
local _M = {}

-- Own names for the system's functions: other modules may have declared those differently.
ffi.cdef [[
struct rlc_time { long sec, nsec; };
struct rlc_set { unsigned long bits[16]; };
struct rlc_info { int signo, error, code; int pad[29]; };
struct rlc_poll { int fd; short events, revents; };
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
int rlc_socketpair(int, int, int, int *) __asm__("socketpair");
ssize_t rlc_send(int, const void *, size_t, int) __asm__("send");
ssize_t rlc_recv(int, void *, size_t, int) __asm__("recv");
int rlc_fcntl(int, int, int) __asm__("fcntl");
int rlc_poll(struct rlc_poll *, unsigned long, int) __asm__("poll");
int rlc_sigfillset(struct rlc_set *) __asm__("sigfillset");
int rlc_signalfd(int, const struct rlc_set *, int) __asm__("signalfd");
ssize_t rlc_read(int, void *, size_t) __asm__("read");
int rlc_getpgid(int) __asm__("getpgid");
int rlc_clock_gettime(int, struct rlc_time *) __asm__("clock_gettime");
char *rlc_strerror(int) __asm__("strerror");
void *rlc_signal(int, void *) __asm__("signal");
int rlc_abs(int) __asm__("abs");
]]

_M.HUP, _M.INT, _M.QUIT, _M.KILL, _M.USR1, _M.USR2, _M.PIPE, _M.TERM, _M.CHLD, _M.CONT, _M.STOP =
    1, 2, 3, 9, 10, 12, 13, 15, 17, 18, 19
_M.TSTP, _M.TTIN, _M.TTOU = 20, 21, 22
local CAUGHT = { _M.HUP, _M.INT, _M.QUIT, _M.USR1, _M.USR2, _M.TERM, _M.CHLD }

local SIG_BLOCK, SIG_SETMASK, SI_KERNEL = 0, 2, 0x80
local SIG_DFL, SIG_IGN = ffi.cast("void *", 0), ffi.cast("void *", 1)
local PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, WNOHANG, WUNTRACED = 1, 36, 1, 2
local ENOENT, EINTR = 2, 4
local O_WRONLY, O_NOCTTY = 1, 0x100
local AF_UNIX, SOCK_SEQPACKET, SOCK_CLOEXEC, SFD_CLOEXEC = 1, 5, 0x80000, 0x80000
local MSG_NOSIGNAL, MSG_DONTWAIT, F_SETFD, FD_CLOEXEC, POLLIN = 0x4000, 0x40, 2, 1, 1
local CLOCK_BOOTTIME, MAX_POLL_MS = 7, 60000

local caught, before = ffi.new "struct rlc_set", ffi.new "struct rlc_set"

local function strerror()
    return ffi.string(C.rlc_strerror(ffi.errno()))
end

function _M.id()
    return C.rlc_getpid()
end

--- The time in seconds, by the clock of client.now().
function _M.now()
    local t = ffi.new "struct rlc_time"
    C.rlc_clock_gettime(CLOCK_BOOTTIME, t)
    return tonumber(t.sec) + tonumber(t.nsec) / 1e9
end

-- The text of a file of /proc; "" if it cannot be read.
local function contents(path)
    local file = io.open(path)
    local text = file and file:read "*a"
    if file then
        file:close()
    end
    return text or ""
end

-- ---- signals ---------------------------------------------------------------------

--- Whether INT was ignored when the command began. luajit catches INT itself, so the script that
-- starts luajit passes this on (cli/redlock).
function _M.ignores_int()
    return rawget(_G, "REDLOCK_INT_IGNORED") == true
end

-- Whether a signal up to 16 is to stay ignored, here and in started programs.
local function is_ignored(signo)
    local mask = contents("/proc/self/status"):match "SigIgn:%s*%x*(%x%x%x%x)\n" or "0"
    return bit.band(tonumber(mask, 16), bit.lshift(1, signo - 1)) ~= 0
        or signo == _M.INT and _M.ignores_int()
end

--- Makes started programs ignore INT if it was ignored when this one began.
function _M.keep_ignoring()
    if _M.ignores_int() then
        C.rlc_signal(_M.INT, SIG_IGN)
    end
end

--- From now on signals wait for signal(), except ignored ones.
function _M.catch()
    _M.keep_ignoring()
    for _, signo in ipairs(CAUGHT) do
        if not is_ignored(signo) then
            C.rlc_sigaddset(caught, signo)
        end
    end
    C.rlc_sigprocmask(SIG_BLOCK, caught, before)
end

--- Waits for the next signal.
-- @return its number and whether the terminal sent it (to the whole foreground group); nil: none
function _M.signal(seconds)
    local info = ffi.new "struct rlc_info"
    local whole = math.floor(seconds)
    local t = ffi.new("struct rlc_time", whole, (seconds - whole) * 1e9)
    local signo = C.rlc_sigtimedwait(caught, info, t)
    if signo > 0 then
        return signo, info.code == SI_KERNEL
    end
end

-- set becomes the set of those that were blocked before.
local function block_all(set)
    local all = ffi.new "struct rlc_set"
    C.rlc_sigfillset(all)
    C.rlc_sigprocmask(SIG_BLOCK, all, set)
end

--- Blocks all signals for the rest of the process.
-- @return a descriptor that becomes readable when a child has ended
function _M.block()
    local ends = ffi.new "struct rlc_set"
    block_all(before)
    C.rlc_sigaddset(ends, _M.CHLD)
    return C.rlc_signalfd(-1, ends, SFD_CLOEXEC)
end

--- From now on these signals do nothing here. Unlike ignored ones they work again in started
-- programs.
function _M.disregard(list)
    for _, signo in ipairs(list) do
        if not is_ignored(signo) then
            C.rlc_signal(signo, ffi.cast("void *", C.rlc_abs))     -- any function without effects
        end
    end
end

--- From now on this signal ends this process, also if it was ignored.
function _M.heed(signo)
    C.rlc_signal(signo, SIG_DFL)
end

-- ---- programs --------------------------------------------------------------------

local function die_with(parent)
    C.rlc_prctl(PR_SET_PDEATHSIG, _M.KILL, 0, 0, 0)
    if C.rlc_getppid() ~= parent then          -- the parent died before prctl()
        C.rlc_exit(125)
    end
end

-- The child's part between fork and exec; never returns.
local function become(argv, opts, parent)
    if not opts.outlives then
        die_with(parent)
    end
    if opts.keep then
        C.rlc_fcntl(opts.keep, F_SETFD, 0)
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
    for _, signo in ipairs(CAUGHT) do              -- before they arrive
        if C.rlc_signal(signo, SIG_DFL) == SIG_IGN then
            C.rlc_signal(signo, SIG_IGN)
        end
    end
    C.rlc_sigprocmask(SIG_SETMASK, before, nil)
    local list = ffi.new("const char *[?]", #argv + 1)
    for i = 1, #argv do
        list[i - 1] = argv[i]
    end
    C.rlc_execvp(argv[1], list)
    local errno, why = ffi.errno(), strerror()
    io.stderr:write("redlock: ", args.words({ argv[1] }, 1), ": ", why, "\n")
    C.rlc_exit(errno == ENOENT and 127 or 126)
end
if jit then
    jit.off(become)
end

--- Starts a program, found in PATH, which is killed when this process dies. opts, or nil: env:
-- variables to set; group: in a new process group; quiet: without output; keep: a descriptor that
-- it inherits; outlives: not killed with this process.
-- @return its process id; or nil and the reason
function _M.spawn(argv, opts)
    io.stdout:flush()
    opts = opts or {}
    local parent, blocked = C.rlc_getpid(), ffi.new "struct rlc_set"
    block_all(blocked)
    local pid = C.rlc_fork()
    if pid == 0 then
        -- Before anything else: the garbage is the parent's to finalize. What its files have not
        -- written yet would be written twice.
        collectgarbage "stop"
        become(argv, opts, parent)
    end
    C.rlc_sigprocmask(SIG_SETMASK, blocked, nil)
    if pid < 0 then
        return nil, strerror()
    end
    if opts.group then
        C.rlc_setpgid(pid, pid)            -- the child does it too, as either may come first
    end
    return pid
end

--- Forks. The copy is killed when this process dies, and signals have the effects there that they
-- had before catch().
-- @return 0 in the copy, else its process id; or nil and the reason
function _M.fork()
    io.stdout:flush()
    local parent = C.rlc_getpid()
    local pid = C.rlc_fork()
    if pid == 0 then
        die_with(parent)
        C.rlc_sigprocmask(SIG_SETMASK, before, nil)
    elseif pid < 0 then
        return nil, strerror()
    end
    return pid
end
if jit then
    jit.off(_M.fork)
    jit.off(_M.spawn)
end

-- What waitpid() says of a child that has ended.
-- @return its exit status (128 + n: by signal n), and whether a signal ended it
local function decode(status)
    local signo = bit.band(status, 0x7f)
    if signo ~= 0 then
        return 128 + signo, true
    end
    return bit.band(bit.rshift(status, 8), 0xff), false
end

--- Waits until a child has ended.
-- @return its exit status (128 + n: by signal n); 125: it is not known
function _M.await(pid)
    local status = ffi.new("int[1]", bit.lshift(125, 8))
    repeat
        local ended = C.rlc_waitpid(pid, status, 0)
    until ended == pid or ffi.errno() ~= EINTR
    return (decode(status[0]))
end

--- Reaps a child (-1: any) that has ended. stopped(pid, signo), or nil, is called for each that was
-- stopped.
-- @return its exit status (128 + n: by signal n), its id, and whether a signal ended it; nil: none
--   has ended; false: there are no children
function _M.reap(pid, stopped)
    local status = ffi.new "int[1]"
    local ended = C.rlc_waitpid(pid, status, WNOHANG + (stopped and WUNTRACED or 0))
    if ended < 0 then
        return false
    elseif ended == 0 then
        return nil
    end
    if bit.band(status[0], 0x7f) == 0x7f then
        stopped(ended, bit.rshift(status[0], 8))
        return _M.reap(pid, stopped)
    end
    local code, killed = decode(status[0])
    return code, ended, killed
end

--- Sends a signal; with a negative id to a process group.
function _M.kill(pid, signo)
    return C.rlc_kill(pid, signo) == 0
end

--- Removes variables from the environment of this process and of started programs.
function _M.forget(names)
    for _, name in ipairs(names) do
        C.rlc_unsetenv(name)
    end
end

--- Makes this process the parent of orphans among its descendants.
function _M.adopt_orphans()
    C.rlc_prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
end

--- Lists the children of a process (default: this one) whose main thread starts them. Empty: none,
-- or the kernel does not list them.
function _M.children(pid)
    pid = pid or C.rlc_getpid()
    local list = {}
    for child in contents(("/proc/%d/task/%d/children"):format(pid, pid)):gmatch "%d+" do
        list[#list + 1] = tonumber(child)
    end
    return list
end

local function state_of(pid)
    return contents(("/proc/%d/stat"):format(pid)):match "%) (%a)[^)]*$"
end

--- Whether a process is still running, and not a zombie.
function _M.is_running(pid)
    local state = state_of(pid)
    return state ~= nil and state ~= "Z" and state ~= "X"
end

--- Whether a process is stopped, by a signal or a debugger.
function _M.is_stopped(pid)
    local state = state_of(pid)
    return state == "T" or state == "t"
end

--- Whether a process is an ancestor of this one.
function _M.is_below(ancestor)
    local pid = C.rlc_getppid()
    while pid and pid > 1 and pid ~= ancestor do
        pid = tonumber(contents(("/proc/%d/stat"):format(pid)):match "%) %a (%d+)[^)]*$")
    end
    return pid == ancestor
end

function _M.group(pid)
    return C.rlc_getpgid(pid)
end

-- ---- messages --------------------------------------------------------------------

--- Makes a connection within this machine. Started programs inherit it only with `keep`.
-- @return its two ends; or nil and the reason
function _M.connection()
    local fds = ffi.new "int[2]"
    if C.rlc_socketpair(AF_UNIX, bit.bor(SOCK_SEQPACKET, SOCK_CLOEXEC), 0, fds) ~= 0 then
        return nil, strerror()
    end
    return fds[0], fds[1]
end

--- Keeps started programs from inheriting the descriptor.
function _M.keep(fd)
    C.rlc_fcntl(fd, F_SETFD, FD_CLOEXEC)
end

function _M.close(fd)
    C.rlc_close(fd)
end

--- Sends a message; never waits.
function _M.send(fd, text)
    C.rlc_send(fd, text, #text, MSG_NOSIGNAL + MSG_DONTWAIT)
end

--- Returns the next message; "": the other end is closed; nil: none yet.
function _M.receive(fd)
    local buffer = ffi.new "char[64]"
    local n = tonumber(C.rlc_recv(fd, buffer, 64, MSG_DONTWAIT))
    if n >= 0 then
        return ffi.string(buffer, n)
    end
end

--- Waits until there is a message, a child has ended (see block()), or the time is up.
function _M.wait(fd, ends, seconds)
    local polled = ffi.new("struct rlc_poll[2]", { { fd, POLLIN, 0 }, { ends, POLLIN, 0 } })
    local ms = math.ceil(math.min(math.max(seconds * 1000, 0), MAX_POLL_MS))
    C.rlc_poll(polled, 2, ms)
    if polled[1].revents ~= 0 then
        C.rlc_read(ends, ffi.new "char[128]", 128)
    end
end

-- ----------------------------------------------------------------------------------

function _M.is_terminal(fd)
    return C.rlc_isatty(fd) == 1
end

--- Whether a terminal controls this process, in the foreground or not.
function _M.has_terminal()
    local fd = C.rlc_open("/dev/tty", O_WRONLY + O_NOCTTY)
    if fd >= 0 then
        C.rlc_close(fd)
    end
    return fd >= 0
end

--- @return a TCP port on 127.0.0.1 that was free a moment ago
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
