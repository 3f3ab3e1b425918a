--- A terminal that shows one screen after another, and reads single keys.

local ffi = require "ffi"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"

local C = ffi.C
local _M = {}

ffi.cdef [[
struct rlc_screen { unsigned short lines, columns, x, y; };
int rlc_ioctl(int, unsigned long, ...) __asm__("ioctl");
]]

local STDIN, STDOUT = 0, 1
local POLLIN, GET_SIZE = 1, 0x5413       -- TIOCGWINSZ
-- To the alternate screen, without a cursor; and back. To the upper left corner; clear to the end
-- of the line; clear to the end of the screen.
local ENTER, LEAVE = "\27[?1049h\27[?25l", "\27[?25h\27[?1049l"
local HOME, REST_OF_LINE, REST = "\27[H", "\27[K", "\27[J"

local before                 -- settings from `stty -g`

function _M.is_here()
    return process.is_terminal(STDIN) and process.is_terminal(STDOUT)
end

function _M.size()
    local screen = ffi.new "struct rlc_screen"
    if C.rlc_ioctl(STDOUT, GET_SIZE, screen) ~= 0 or screen.lines == 0 then
        return 24, 80
    end
    return screen.lines, screen.columns
end

--- The columns of the terminal that output goes to; nil: it goes elsewhere.
function _M.width()
    return process.is_terminal(STDOUT) and select(2, _M.size()) or nil
end

--- Reads keys one by one and without echo from now on.
function _M.enter()
    local pipe = io.popen "stty -g"
    before = pipe:read "*l"
    pipe:close()
    os.execute "stty -icanon -echo min 0 time 0"
    io.stdout:write(ENTER)
    io.stdout:flush()
end

function _M.restore()
    io.stdout:write(LEAVE)
    io.stdout:flush()
    if before and before:find "^[%x:]+$" then
        os.execute("stty " .. before)
    end
end

--- Replaces the screen by a list of lines, cut to its size. It clears nothing first and writes
-- everything at once, so nothing flickers.
function _M.show(lines)
    local most, columns = _M.size()
    local parts = { HOME }
    for i = 1, math.min(#lines, most) do
        parts[#parts + 1] = report.cut(lines[i], columns) .. REST_OF_LINE
            .. (i < most and "\r\n" or "")
    end
    parts[#parts + 1] = #lines < most and REST or ""
    io.stdout:write(table.concat(parts))
    io.stdout:flush()
end

--- Waits for the next key.
-- @return a byte; "": the terminal is gone; nil: none was pressed
function _M.key(seconds)
    local polled = ffi.new("struct rlc_poll[1]", { { STDIN, POLLIN, 0 } })
    if C.rlc_poll(polled, 1, math.ceil(seconds * 1000)) <= 0 then
        return nil
    end
    local byte = ffi.new "char[1]"
    local n = tonumber(C.rlc_read(STDIN, byte, 1))
    return n > 0 and ffi.string(byte, 1) or ""
end

return _M
