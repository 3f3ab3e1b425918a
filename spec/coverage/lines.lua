-- Notes which lines of the library run, in this process and its children: one byte a line
-- in a file that all of them map, so that nothing is lost however a process ends. Scripts for
-- the servers run in the simulator's model of one.
--   LUA_INIT=@spec/coverage/lines.lua
--   COVERAGE_LINES=<that file>  COVERAGE_FILES=<the sources, in order, with spaces between>
if not jit then
    return         -- busted's launcher is another Lua
end

local ffi = require "ffi"

local MAX_LINES = 4096
local SCRIPT = "@user_script"      -- what servers call each of them

local names, numbers = {}, {}
for name in os.getenv("COVERAGE_FILES"):gmatch "%S+" do
    numbers[name] = #names
    names[#names + 1] = name
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
    ffi.C.cov_mmap(nil, MAX_LINES * #names, PROT_READ_WRITE, MAP_SHARED, fd, 0))
ffi.C.cov_close(fd)

-- Chunk -> what has its lines, or false.
local of_source = {}

local function look_up(source)
    local number = numbers[source:match "lua/redlock/.*$" or ""]
    of_source[source] = number and lines + number * MAX_LINES or false
    return of_source[source]
end

-- ---- scripts, which are made of several files ----------------------------------------

local root = debug.getinfo(1, "S").source:match "^@(.*)spec/coverage/[^/]*$"
local text_of

local function read_all()
    text_of = {}
    for _, name in ipairs(names) do
        local file = assert(io.open(root .. name, "rb"))
        text_of[name] = file:read "*a"
        file:close()
    end
end

-- The source that a script goes on with, or nil.
local function part_at(body, at)
    for _, name in ipairs(names) do
        if body:sub(at, at + #text_of[name] - 1) == text_of[name] then
            return name
        end
    end
end

local function map_lines(body)
    local bytes, line, at = {}, 1, 1
    local name = part_at(body, at)
    while name do
        local first = lines + numbers[name] * MAX_LINES
        local _, count = text_of[name]:gsub("\n", "")
        for i = 1, count do
            bytes[line], line = first + i, line + 1
        end
        at = at + #text_of[name]
        name = part_at(body, at)
    end
    return setmetatable({}, { __newindex = function(_, number, value)
        if bytes[number] then
            bytes[number][0] = value
        end
    end })
end

local load_text, scripts = loadstring, 0
function loadstring(body, name) -- luacheck: ignore 121
    if name == SCRIPT then
        if not text_of then
            read_all()
        end
        scripts = scripts + 1
        name = SCRIPT .. scripts
        of_source[name] = map_lines(body)
    end
    return load_text(body, name)
end

-- ---- counting --------------------------------------------------------------------------

-- Compiled code calls no hooks.
jit.off()
local getinfo = debug.getinfo
local also                   -- the hook of a spec
debug.sethook(function(event, line)
    local source = getinfo(2, "S").source
    local at = of_source[source]
    if at == nil then
        at = look_up(source)
    end
    if at then
        at[line] = 1
    end
    if also then
        return also(event, line)     -- in the place of this function, as it may look at its caller
    end
end, "l")

function debug.sethook(hook) -- luacheck: ignore 122
    also = hook
end
