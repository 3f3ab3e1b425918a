-- Kinds of client processes, by name. A kind is
--   fenced  whether its locks are fenced ones
--   slots  how many of its users take locks side by side: the lanes it has in the picture
--   start  (config, library, env, log) -> a process as spec.support.proc makes it, which obeys
--          the commands and sends the marks that worker.lua does. config: a file of JSON, as
--          world.lua writes it; library: a checkout to take the library from, or nil; env:
--          variables for its clock; log: a file for its standard error
local build = require "spec.support.build"
local lua = require "spec.support.lua"
local proc = require "spec.support.proc"

local WORKER = build.root .. "/spec/chaos/worker.lua"

--- @param library  a checkout to take the library from; nil: this one
local function lua_env(library, extra)
    local env = lua.env()
    if library then
        env.LUA_PATH = table.concat({ library .. "/lua/?.lua", library .. "/lua/?/init.lua",
            library .. "/build/?.lua", env.LUA_PATH }, ";")
        env.LUA_CPATH = library .. "/build/?.so;" .. env.LUA_CPATH
    end
    for name, value in pairs(extra) do
        env[name] = value
    end
    return env
end

local function start_lua(file, library, extra, log)
    return proc.spawn { "luajit", WORKER, file, stdin = "pipe", stdout = "pipe", stderr = log,
        env = lua_env(library, extra) }
end

return {
    blocking = { slots = 1, start = start_lua },
    futures = { slots = 4, start = start_lua },
    fenced = { slots = 4, fenced = true, start = start_lua },
}
