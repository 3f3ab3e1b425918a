-- Three Redis servers and nginx with examples/nginx.conf; see `make demo-nginx`.
--
--     luajit examples/nginx/run.lua [port]
--
-- Debian's nginx; another one: OPENRESTY=prefix, or NGINX_PROGRAM=file NGINX_MODULES=folder.
jit.off()                      -- compiled code would not look for Ctrl-C

local support = require "spec.support"
local program = require "spec.support.nginx"

local PORT = arg[1] or "8099"

local function read(path)
    local file = assert(io.open(path))
    local text = file:read "*a"
    file:close()
    return text
end

local root = io.popen("pwd"):read "*l"
local cluster = support.cluster(3, { unnamed = true })
local dir = support.tmpdir()

-- Its paths are relative: those of the library to this directory, nginx's own to another.
local conf = read "examples/nginx.conf"
    :gsub("load_module modules/([^;]*);", program.load)
    :gsub('([";])([%w/]*%?)', function(before, path)
        return before .. (path:find "^/" and path or root .. "/" .. path)
    end)
    :gsub("127.0.0.1:8099", "127.0.0.1:" .. PORT)
    :gsub("http {", ([[http {
    client_body_temp_path %s/body;
    proxy_temp_path %s/proxy;
    fastcgi_temp_path %s/fastcgi;
    uwsgi_temp_path %s/uwsgi;
    scgi_temp_path %s/scgi;
    init_worker_by_lua_block {         -- a worker ends with its master, however that ends
        local ffi = require "ffi"
        ffi.cdef "int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long);"
        ffi.C.prctl(1, 9, 0, 0, 0)
    }]]):gsub("%%s", dir), 1)
local file = assert(io.open(dir .. "/nginx.conf", "w"))
file:write(conf)
file:close()
support.spawn { "chmod", "711", dir }:wait(10)

local command = program.command(dir)
command.env = { REDLOCK_NODES = table.concat(cluster:uris(), " ") }
local nginx = support.spawn(command)
print(("http://127.0.0.1:%s/counter  /news  /report  /phases  /metrics; ends with Ctrl-C")
    :format(PORT))
io.stdout:flush()
local ok, err = pcall(function()
    while nginx:alive() do
        support.sleep(0.1)
    end
end)
nginx:kill "QUIT"
nginx:wait(10)
support.cleanup()
if not ok and not tostring(err):find "interrupted" then
    error(err, 0)
end
