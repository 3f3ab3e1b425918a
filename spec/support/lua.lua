-- Lua code in a process of its own.
local build = require "spec.support.build"
local proc = require "spec.support.proc"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

-- The environment in which the modules of this repository are found; SPEC_CORE names the
-- folder of another core, SPEC_LUA that of another library.
function _M.env()
    local path = "LIB/?.lua;LIB/?/init.lua;ROOT/build/?.lua;ROOT/?.lua;ROOT/?/init.lua;;"
    local places = { LIB = os.getenv "SPEC_LUA" or build.root .. "/lua", ROOT = build.root }
    return {
        LUA_PATH = (path:gsub("%u+", places)),
        LUA_CPATH = (os.getenv "SPEC_CORE" or build.root .. "/build") .. "/?.so;;",
    }
end

-- opts: args, env, argv_prefix, cwd, stdin, stdout, stderr
function _M.run(code, opts)
    opts = opts or {}
    local file = scope.tmpdir() .. "/code.lua"
    -- On the first line, the numbers in error messages stay true.
    sys.write_file(file, 'io.stdout:setvbuf "line"; ' .. code)
    local spec = {
        stdin = opts.stdin or "pipe",
        stdout = opts.stdout or "pipe",
        stderr = opts.stderr,
        env = _M.env(),
        cwd = opts.cwd,
    }
    for name, value in pairs(opts.env or {}) do
        spec.env[name] = value
    end
    local function add(args)
        for _, arg in ipairs(args or {}) do
            spec[#spec + 1] = arg
        end
    end
    add(opts.argv_prefix)
    add { "luajit", file }
    add(opts.args)
    return proc.spawn(spec)
end

return _M
