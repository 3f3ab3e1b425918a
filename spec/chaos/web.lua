-- luajit spec/chaos/web.lua CONFIG.json PORT
--
-- The browsers of an nginx: each slot is one request after the other, which takes a lock (see
-- handler.lua). Commands as of worker.lua: after "settle" each makes a last request, which takes
-- all locks; one that is broken off by the end of its worker is made again.
local cjson = require "cjson"
local ffi = require "ffi"
local inspect = require "spec.support.inspect"
local marks = require "spec.chaos.marks"
local stream = require "spec.support.stream"
local sys = require "spec.support.sys"

local C = ffi.C
local now = marks.now

ffi.cdef [[
int chaos_connect_inet(int, const struct sup_sockaddr_in *, unsigned) __asm__("connect");
]]

local AF_INET, SOCK_STREAM, SOCK_CLOEXEC, MSG_NOSIGNAL = 2, 1, 0x80000, 0x4000
local POLLIN = 1
local AGAIN_S = 0.02            -- after a refused connection: nginx is starting
local TURN_MS = 20

local config = cjson.decode(assert(sys.read_file(arg[1])))
local port = tonumber(arg[2])
local send = marks.sender(config.recorder)
local stdin = stream.new(0)
local settling, serial = false, 0
local buffer = ffi.new "char[4096]"

local function connect()
    local fd = C.sup_socket(AF_INET, SOCK_STREAM + SOCK_CLOEXEC, 0)
    local to = ffi.new("struct sup_sockaddr_in", { family = AF_INET,
        port = { math.floor(port / 256), port % 256 }, addr = { 127, 0, 0, 1 } })
    if C.chaos_connect_inet(fd, to, ffi.sizeof(to)) ~= 0 then
        C.sup_close(fd)
        return nil
    end
    return fd
end

local function ask(slot)
    slot.fd = connect()
    if not slot.fd then
        slot.after = now() + AGAIN_S * 1000
        return
    end
    serial = serial + 1
    slot.r, slot.a, slot.reply, slot.last = serial, now(), "", settling
    local text = ("GET /lock?s=%d&r=%d%s HTTP/1.0\r\n\r\n"):format(slot.number, serial,
        settling and "&settle=1" or "")
    C.sup_send(slot.fd, text, #text, MSG_NOSIGNAL)
end

local function finish(slot)
    C.sup_close(slot.fd)
    slot.fd = nil
    local status, body = slot.reply:match "^HTTP/1%.%d (%d+)[^\n]*\n.-\r\n\r\n(.*)$"
    if status == "200" and body == "ok" then
        slot.done = slot.last
    elseif slot.reply == "" then
        send { k = "broken", c = config.id, s = slot.number, r = slot.r, a = slot.a, b = now() }
    else
        send { k = "bad", c = config.id, s = slot.number, a = now(),
            text = "a request was answered " .. slot.reply }
        slot.done = slot.last
    end
end

local function read(slot)
    local n = tonumber(C.sup_read(slot.fd, buffer, ffi.sizeof(buffer)))
    if n > 0 then
        slot.reply = slot.reply .. ffi.string(buffer, n)
    else
        finish(slot)
    end
end

local function listen(timeout)
    local line, err = stdin:read_line(timeout)
    if line == "settle" then
        settling = true
    elseif line == "quit" or err == "eof" then
        os.exit(0)
    end
end

local slots = {}
for s = 1, config.slots do
    slots[s] = { number = s, after = 0 }
end

-- One turn of all. @return whether everybody has made his last request
local function turn()
    local waiting, fds = {}, ffi.new("struct sup_pollfd[?]", #slots + 1)
    local all_done = true
    for _, slot in ipairs(slots) do
        if not slot.fd and not slot.done and now() >= slot.after then
            ask(slot)
        end
        if slot.fd then
            waiting[#waiting + 1] = slot
            fds[#waiting - 1].fd, fds[#waiting - 1].events = slot.fd, POLLIN
        end
        all_done = all_done and slot.done
    end
    if not all_done and C.sup_poll(fds, #waiting, TURN_MS) > 0 then
        for i, slot in ipairs(waiting) do
            if fds[i - 1].revents ~= 0 then
                read(slot)
            end
        end
    end
    return all_done
end

local function resources(k)
    jit.flush()                  -- compiled code is not what is looked at
    collectgarbage()
    collectgarbage()
    send { k = k, c = config.id, a = now(), fds = inspect.fds(), rss = inspect.rss(),
        lua = collectgarbage "count" }
end

resources "began"
while not turn() do
    if not settling then
        listen(0)
    end
end
resources "settled"
io.stdout:write "settled\n"
io.stdout:flush()
while true do
    listen(3600)
end
