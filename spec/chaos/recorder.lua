-- luajit spec/chaos/recorder.lua SOCKET FILE
--
-- Writes the marks that arrive at SOCKET to FILE, one a line, in the order of arrival, until
-- its standard input ends; then what is left in the queue. Says "ready" first.
local ffi = require "ffi"
local marks = require "spec.chaos.marks"
local sys = require "spec.support.sys"

local C = ffi.C

local SIZE = 65536
local DRAINED_S = 0.05

local fd = marks.receiver(arg[1])
local file = assert(io.open(arg[2], "wb"))
local buffer = ffi.new("char[?]", SIZE)
local both = ffi.new("struct sup_pollfd[2]", { { fd, 1, 0 }, { 0, 1, 0 } })

local function receive()
    local n = tonumber(C.sup_read(fd, buffer, SIZE))
    if n > 0 then
        file:write(ffi.string(buffer, n), "\n")
    end
end

io.stdout:write "ready\n"
io.stdout:flush()
repeat
    local n = C.sup_poll(both, 2, 1000)
    if n > 0 and both[0].revents ~= 0 then
        receive()
    elseif n == 0 then
        file:flush()
    end
until n > 0 and both[1].revents ~= 0
while sys.ready(fd, sys.now() + DRAINED_S) do
    receive()
end
file:close()
