-- Kinds of client processes, by name. A kind is
--   fenced  whether its locks are fenced ones
--   ways    how it takes them instead (user.lua): each as often as it stands there
--   slots  how many of its users take locks side by side
--   start  (config, library, env, log) -> a process as spec.support.proc makes it, which obeys
--          the commands and sends the marks that worker.lua does. config: a file of JSON, as
--          world.lua writes it; library: a checkout to take the library from, or nil; env:
--          variables for its clock; log: a file for its standard error
--   finish (process) -> after it has ended: what went wrong there, or nil
local cjson = require "cjson"
local build = require "spec.support.build"
local lua = require "spec.support.lua"
local nginx = require "spec.support.nginx"
local proc = require "spec.support.proc"
local sys = require "spec.support.sys"

-- What there is besides plain and fenced locks.
local FAMILY = { "read", "read", "read", "write", "write", "token write", "fair", "fair", "multi",
    "permit", "permit", "permit" }

local WORKER = build.root .. "/spec/chaos/worker.lua"
local WEB = build.root .. "/spec/chaos/web.lua"

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

local function option_text(options)
    local parts = {}
    for name, value in pairs(options) do
        if name ~= "nodes" then
            parts[#parts + 1] = ("%s = %s"):format(name,
                type(value) == "string" and ("%q"):format(value) or tostring(value))
        end
    end
    table.sort(parts)
    return table.concat(parts, ", ")
end

-- The process is the one that makes the requests; its nginx is in the field nginx.
local function start_nginx(file, library, _, log)
    local options = cjson.decode(sys.read_file(file)).options
    local server = nginx.nginx {
        nodes = options.nodes, options = option_text(options), root = library, workers = 2,
        user = "root",                   -- to whom the recorder's socket belongs
        init_worker = ("serve = require('spec.chaos.handler').new(%q, client)"):format(file),
        server = "location /lock { content_by_lua_block { serve() } }",
    }
    local process = proc.spawn { "luajit", WEB, file, server.port, stdin = "pipe",
        stdout = "pipe", stderr = log, env = lua.env() }
    process.nginx = server
    return process
end

local function finish_nginx(process)
    local code = process.nginx:stop "QUIT"
    local complaints = process.nginx:complaints "exited on signal 9"
    if code ~= 0 or complaints ~= "" then
        return ("nginx ended with %s: %s"):format(tostring(code), complaints)
    end
end

return {
    blocking = { slots = 1, start = start_lua },
    futures = { slots = 4, start = start_lua },
    fenced = { slots = 4, fenced = true, start = start_lua },
    family = { slots = 4, ways = FAMILY, start = start_lua },
    line = { slots = 4, ways = { "fair" }, start = start_lua },
    nginx = { slots = 8, start = start_nginx, finish = finish_nginx },
}
