-- The helper programs, compiled when a source is newer than the binary.
local sys = require "spec.support.sys"

local _M = {}

local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"

_M.root = sys.realpath(here .. "/../..")

local SOURCES = {
    launch = "launch.c",
    cut = "cut.c",
    proxy = "proxy.c carry.c",
    hostile = "hostile.c",
    ["clockshim.so"] = "-shared -fPIC clockshim.c",
    ["nameshim.so"] = "-shared -fPIC nameshim.c -ldl",
    ["seedshim.so"] = "-shared -fPIC seedshim.c -ldl",
}

-- Linked under another name and moved, several runs may do this at once.
local SCRIPT = [[
cd '%s/spec/support' && mkdir -p ../../build/spec || exit 1
bin=../../build/spec/%s
for f in *.c *.h; do
    [ "$bin" -nt "$f" ] && continue
    ${CC:-cc} -O1 -g -Wall -Wextra -std=c11 -D_GNU_SOURCE -o "$bin.$$" %s &&
        mv "$bin.$$" "$bin"
    exit
done
]]

local built = {}

-- @return the path of a helper program, or of a library to be preloaded
function _M.program(name)
    if not built[name] then
        if not sys.sh(SCRIPT:format(_M.root, name, SOURCES[name])) then
            error("cannot build " .. name)
        end
        built[name] = _M.root .. "/build/spec/" .. name
    end
    return built[name]
end

-- The path of a library that the compiler finds.
function _M.library(name)
    local pipe = assert(io.popen("${CC:-cc} -print-file-name=" .. name))
    local path = pipe:read "*l"
    pipe:close()
    return path
end

--- Why ThreadSanitizer cannot judge what forks here; nil: it can.
function _M.no_tsan()
    local pipe = assert(io.popen("${CC:-cc} -dumpversion"))
    local major = tonumber(pipe:read("*l"):match "^%d+")
    pipe:close()
    return major < 11 and "ThreadSanitizer of gcc 10 waits for itself for ever in a child of a "
        .. "program with many threads" or nil
end

return _M
