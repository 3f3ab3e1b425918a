-- Child processes that cannot outlive this one.
local ffi = require "ffi"
local bit = require "bit"
local build = require "spec.support.build"
local scope = require "spec.support.scope"
local stream = require "spec.support.stream"
local sys = require "spec.support.sys"

local C = ffi.C

local _M = {}
_M.__index = _M

local SIGNALS = { HUP = 1, INT = 2, QUIT = 3, KILL = 9, TERM = 15, CONT = 18, STOP = 19 }
local WNOHANG = 1
local O_WRONLY, O_CREAT, O_APPEND = 1, 0x40, 0x400
local POLLOUT, MSG_NOSIGNAL, MSG_DONTWAIT = 4, 0x4000, 0x40

-- A NULL-terminated array; it only refers to the strings, the list has to stay.
local function c_strings(list)
    local array = ffi.new("const char *[?]", #list + 1)
    for i, s in ipairs(list) do
        array[i - 1] = s
    end
    return array
end

-- The environment of this process with some variables set or, if false, unset.
local function environment(changes)
    local env = {}
    local i = 0
    while C.sup_environ[i] ~= nil do
        local entry = ffi.string(C.sup_environ[i])
        if changes[entry:match "^[^=]*"] == nil then
            env[#env + 1] = entry
        end
        i = i + 1
    end
    for name, value in pairs(changes) do
        if value then
            env[#env + 1] = name .. "=" .. value
        end
    end
    return env
end

-- Arranges for the child's descriptor fd; returns our end of a pipe and adds
-- the other one to theirs.
local function plumb(actions, fd, how, theirs)
    if how == "pipe" then
        local ours, their_end = sys.socketpair()
        C.sup_actions_dup2(actions, their_end, fd)
        theirs[#theirs + 1] = their_end
        return ours
    elseif how == "stdout" then
        C.sup_actions_dup2(actions, 1, fd)
    elseif how == "null" then
        C.sup_actions_open(actions, fd, "/dev/null", fd == 0 and 0 or O_WRONLY, 0)
    elseif how then
        C.sup_actions_open(actions, fd, how, bit.bor(O_WRONLY, O_CREAT, O_APPEND), 0x1a4)
    end
end

-- spawn { program, argument..., stdin=, stdout=, stderr=, env=, cwd= }
-- The streams are "pipe", "null", the name of a file to append to, or nil for
-- nothing to read and the output of this process; stderr may be "stdout".
function _M.spawn(spec)
    local argv = { build.program "launch", tostring(C.sup_getpid()), spec.cwd or "." }
    for _, arg in ipairs(spec) do
        argv[#argv + 1] = tostring(arg)
    end
    local env = environment(spec.env or {})
    local actions = ffi.new "struct sup_actions"
    C.sup_actions_init(actions)
    local theirs = {}
    local stdin = plumb(actions, 0, spec.stdin or "null", theirs)
    local stdout = plumb(actions, 1, spec.stdout, theirs)
    local stderr = plumb(actions, 2, spec.stderr, theirs)
    local pid = ffi.new "int[1]"
    local err = C.sup_spawn(pid, argv[1], actions, nil, c_strings(argv), c_strings(env))
    C.sup_actions_destroy(actions)
    for _, fd in ipairs(theirs) do
        C.sup_close(fd)
    end
    if err ~= 0 then
        error(argv[1] .. ": " .. sys.strerror(err), 2)
    end
    local self = setmetatable({
        pid = pid[0],
        stdin = stdin,
        stdout = stream.new(stdout),
        stderr = stream.new(stderr),
    }, _M)
    scope.add_proc(self)
    return self
end

function _M:write(data, timeout)
    local deadline = sys.now() + sys.limit(timeout)
    local at, flags = 0, bit.bor(MSG_NOSIGNAL, MSG_DONTWAIT)
    local bytes = ffi.cast("const char *", data)
    while at < #data do
        if not self.stdin then
            return nil, "closed"
        elseif not sys.ready(self.stdin, deadline, POLLOUT) then
            return nil, "timeout"
        end
        local n = tonumber(C.sup_send(self.stdin, bytes + at, #data - at, flags))
        if n < 0 then
            return nil, sys.strerror()
        end
        at = at + n
    end
    return true
end

function _M:read_line(timeout)
    return self.stdout:read_line(timeout)
end

function _M:read_all(timeout)
    return self.stdout:read_all(timeout)
end

function _M:close_stdin()
    if self.stdin then
        C.sup_close(self.stdin)
        self.stdin = nil
    end
end

function _M:close()
    self:close_stdin()
    self.stdout:close()
    self.stderr:close()
end

local function reap(self)
    local status, used = ffi.new "int[1]", ffi.new "long[64]"        -- struct rusage
    if self.code or C.sup_wait4(self.pid, status, WNOHANG, used) == 0 then
        return self.code ~= nil
    end
    self.cpu = tonumber(used[0] + used[2]) + tonumber(used[1] + used[3]) / 1e6    -- seconds
    self.signal = bit.band(status[0], 0x7f)
    self.code = bit.band(bit.rshift(status[0], 8), 0xff)
    if self.signal == 0 then
        self.signal = nil
    else
        self.code = 128 + self.signal
    end
    self:close_stdin()
    return true
end

function _M:alive()
    return not reap(self)
end

function _M:kill(signal)
    signal = signal or "TERM"
    -- Once reaped, the number may belong to somebody else.
    return self:alive() and C.sup_kill(self.pid, SIGNALS[signal] or signal) == 0
end

-- The exit code, or 128 + n and n for a child ended by signal n. Of a pause of this process, in
-- which the child may have stood still, too, 0.1 s counts.
function _M:wait(timeout)
    local left, looked = sys.limit(timeout), sys.now()
    while not reap(self) do
        if left <= 0 then
            return nil, "timeout"
        end
        sys.sleep(0.001)
        local now = sys.now()
        left, looked = left - math.min(now - looked, 0.1), now
    end
    return self.code, self.signal
end

return _M
