-- Notes which lines of the library run, in this process and its children: one byte a line
-- in a file that all of them map, so that nothing is lost however a process ends.
--   LUA_INIT=@spec/coverage/lines.lua
--   COVERAGE_LINES=<that file>  COVERAGE_FILES=<the sources, in order, with spaces between>
if not jit then
    return         -- busted's launcher is another Lua
end

local ffi = require "ffi"

local MAX_LINES = 4096

local numbers, count = {}, 0
for name in os.getenv("COVERAGE_FILES"):gmatch "%S+" do
    numbers[name] = count
    count = count + 1
end

ffi.cdef [[
int cov_open(const char *, int, ...) __asm__("open");
int cov_close(int) __asm__("close");
void *cov_mmap(void *, size_t, int, int, int, long) __asm__("mmap");
]]
local READ_WRITE, PROT_READ_WRITE, MAP_SHARED = 2, 3, 1
local fd = ffi.C.cov_open(os.getenv "COVERAGE_LINES", READ_WRITE)
assert(fd >= 0, "no COVERAGE_LINES")
local lines = ffi.cast("uint8_t *",
    ffi.C.cov_mmap(nil, MAX_LINES * count, PROT_READ_WRITE, MAP_SHARED, fd, 0))
ffi.C.cov_close(fd)

local of_source = {}

local function look_up(source)
    local number = numbers[source:match "lua/redlock/.*$" or ""]
    of_source[source] = number and lines + number * MAX_LINES or false
    return of_source[source]
end

-- Compiled code calls no hooks.
jit.off()
local getinfo = debug.getinfo
debug.sethook(function(_, line)
    local source = getinfo(2, "S").source
    local at = of_source[source]
    if at == nil then
        at = look_up(source)
    end
    if at then
        at[line] = 1
    end
end, "l")
