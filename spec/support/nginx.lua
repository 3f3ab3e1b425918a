-- nginx with the Lua module, in a directory of its own.
local ffi = require "ffi"
local build = require "spec.support.build"
local proc = require "spec.support.proc"
local scope = require "spec.support.scope"
local stream = require "spec.support.stream"
local sys = require "spec.support.sys"

local C = ffi.C

local MSG_NOSIGNAL = 0x4000

local _M = {}

local Nginx = {}
Nginx.__index = Nginx

local function set(name)
    local value = os.getenv(name)
    return value ~= "" and value or nil
end

-- Which nginx: OPENRESTY=prefix, or NGINX_PROGRAM=file and NGINX_MODULES=folder (empty: it has them
-- built in); Debian's by default.
local OPENRESTY = set "OPENRESTY"
local PROGRAM = set "NGINX_PROGRAM" or OPENRESTY and OPENRESTY .. "/nginx/sbin/nginx" or "nginx"
local MODULES = os.getenv "NGINX_MODULES" or OPENRESTY and "" or "/usr/lib/nginx/modules"

--- The command for nginx with a configuration, in a folder of its own.
function _M.command(dir)
    return { PROGRAM, "-e", "stderr", "-p", dir, "-c", dir .. "/nginx.conf" }
end

--- Its lines of configuration that load modules.
function _M.load(...)
    local lines = MODULES == "" and {} or { ... }
    for i, module in ipairs(lines) do
        lines[i] = "load_module " .. MODULES .. "/" .. module .. ";"
    end
    return table.concat(lines, "\n")
end

--- Whether it can load a module of another package.
function _M.has_module(module)
    local file = MODULES ~= "" and io.open(MODULES .. "/" .. module)
    return file and file:close() or false
end

--- Whether its Lua module knows a directive.
function _M.knows(directive)
    return sys.sh(("cat $(command -v %s) %s/ngx_http_lua_module.so 2> /dev/null | grep -qa %s")
        :format(PROGRAM, MODULES, directive)) == true
end

--- Whether it has OpenResty's patches; whether its OpenSSL has; whether it is Debian's, which has
--- the patch for ssl_certificate_by_lua.
function _M.patches()
    local p = io.popen(("%s -v 2>&1; nm -D $(ldd $(command -v %s) | awk '/libssl/ { print $3 }')")
        :format(PROGRAM, PROGRAM))
    local text = p:read "*a"
    p:close()
    return text:find "openresty/" ~= nil, text:find "SSL_magic_pending_session_ptr" ~= nil,
        PROGRAM == "nginx"
end

local CONF = [[
%(modules)
daemon off;
worker_processes %(workers);
%(user)
pid %(dir)/pid;
error_log %(dir)/error.log info;
worker_shutdown_timeout %(shutdown);
events { worker_connections 8192; }
%(count_env)
%(main)
http {
    access_log off;
    client_body_temp_path %(dir)/body;
    proxy_temp_path %(dir)/proxy;
    fastcgi_temp_path %(dir)/fastcgi;
    uwsgi_temp_path %(dir)/uwsgi;
    scgi_temp_path %(dir)/scgi;
    lua_package_path "%(root)/lua/?.lua;%(root)/lua/?/init.lua;%(root)/build/?.lua;%(spec)/?.lua;;";
    lua_package_cpath "%(core)/?.so;;";
    lua_code_cache %(code_cache);
    lua_shared_dict shared 1m;
    %(http)
    init_by_lua_block {
        %(first)
        %(count_lines)
        redlock = require "redlock"
        nodes = { %(nodes) }
        client = redlock.new { nodes = nodes, cluster = "spec",
            timeout = 2, connect_timeout = 5%(options) }
        %(init)
    }
    init_worker_by_lua_block {
        -- A worker outlives a master that is killed; not here.
        local ffi = require "ffi"
        ffi.cdef "int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long);"
        ffi.C.prctl(1, 9, 0, 0, 0)
        %(init_worker)
    }
    server {
        listen 127.0.0.1:%(port);
        keepalive_requests 10000000;
        location = /ping { content_by_lua_block { ngx.print("pong " .. ngx.worker.pid()) } }
        location = /once { content_by_lua_block {
            local l = client:getLock(ngx.var.arg_name or "x")
            local ok, err = l:tryLock(tonumber(ngx.var.arg_wait), tonumber(ngx.var.arg_lease))
            if not ok then
                return ngx.print(err.code)
            end
            if ngx.var.arg_hold then
                ngx.sleep(tonumber(ngx.var.arg_hold))
            end
            ok, err = l:unlock()
            ngx.print(ok and "ok" or err.code)
        } }
        location = /stats { content_by_lua_block {
            local s = client:stats()
            ngx.print(s.acquired, " ", s.released, " ", s.handed_over, " ", s.failed, " ", s.lost)
        } }
        location = /memory { content_by_lua_block {
            collectgarbage() collectgarbage()
            ngx.print(collectgarbage "count")
        } }
        %(server)
    }
}
]]

local function write_conf(self)
    local o = self.opts
    local uris = {}
    for i, node in ipairs(o.nodes) do
        uris[i] = ("%q"):format(type(node) == "table" and node.uri or node)
    end
    local values = {
        modules = _M.load("ndk_http_module.so", "ngx_http_lua_module.so", unpack(o.modules or {})),
        workers = o.workers or 1,
        user = o.user and "user " .. o.user .. ";" or "",
        dir = self.dir,
        shutdown = o.shutdown or "10s",
        main = o.main or "",
        root = o.root or build.root,
        core = o.core or o.root and o.root .. "/build" or os.getenv "SPEC_CORE"
            or build.root .. "/build",
        -- nginx has no LUA_INIT, and its workers have no environment but what is named.
        count_env = os.getenv "COVERAGE_LINES" and "env COVERAGE_FILES; env COVERAGE_LINES;" or "",
        count_lines = os.getenv "COVERAGE_LINES"
            and ("dofile %q"):format(build.root .. "/spec/coverage/lines.lua") or "",
        spec = build.root,
        code_cache = o.code_cache == false and "off" or "on",
        http = o.http or "",
        nodes = table.concat(uris, ", "),
        options = o.options and ", " .. o.options or "",
        first = o.first or "",
        init = o.init or "",
        init_worker = o.init_worker or "",
        port = self.port,
        server = o.server or "",
    }
    sys.write_file(self.dir .. "/nginx.conf", (CONF:gsub("%%%((%w[%w_]*)%)", values)))
end

-- The reply to GET path: body, status; nil and an error. A connection of its own.
function Nginx:get(path, timeout)
    local request = self:begin(path)
    return request:finish(timeout)
end

local Request = {}
Request.__index = Request

-- Sends a request, to be finished later. Without a program such as curl: there are thousands.
function Nginx:begin(path)
    local fd = sys.connect(self.port, sys.now() + 60)
    local text = ("GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"):format(path)
    if fd then
        C.sup_send(fd, text, #text, MSG_NOSIGNAL)
    end
    local request = setmetatable({ reply = stream.new(fd) }, Request)
    scope.add_conn(request)
    return request
end

-- The status is 0 if there was no reply before the connection ended.
function Request:finish(timeout)
    local text, err = self.reply:read_all(timeout or 20)
    self:close()
    if not text then
        return nil, err
    end
    local status, body = text:match "^HTTP/%S+ (%d+).-\r\n\r\n(.*)$"
    return body or "", tonumber(status or 0)
end

-- Whether no reply has come yet.
function Request:waits()
    return not sys.ready(self.reply.fd, sys.now())
end

function Request:close()
    self.reply:close()
end

-- The client goes away.
Request.abort = Request.close

function Nginx:log()
    return sys.read_file(self.dir .. "/error.log") or ""
end

-- Lines of the log that tell of crashes and Lua errors, not of what becomes of servers.
-- expected: plain text of those that are not.
function Nginx:complaints(expected)
    local lines = {}
    for line in self:log():gmatch "[^\n]+" do
        if expected and line:find(expected, 1, true)
            or line:find "%[warn%].* redlock: %a+://"
            or line:find "%[warn%].* redlock: all servers: the configuration names" then
            line = ""
        end
        if line:find "exited on signal" or line:find "Assertion" or line:find "%[warn%]"
            or line:find "%[error%]" or line:find "%[alert%]" or line:find "%[emerg%]"
            or line:find "%[crit%]" then
            lines[#lines + 1] = line
        end
    end
    return table.concat(lines, "\n")
end

-- The processes of its workers, in the order they were started.
function Nginx:workers()
    local pids = {}
    local text = sys.read_file(("/proc/%d/task/%d/children"):format(self.master, self.master))
    for pid in (text or ""):gmatch "%d+" do
        pids[#pids + 1] = tonumber(pid)
    end
    return pids
end

function Nginx:signal(name)
    assert(sys.sh(("kill -%s %d"):format(name, self.master)))
    return self
end

-- Reloads the configuration, and waits until a new worker answers.
function Nginx:reload()
    local old = {}
    for _, pid in ipairs(self:workers()) do
        old[pid] = true
    end
    self:signal "HUP"
    sys.eventually(function()
        local body = self:get "/ping"
        local pid = tonumber(body and body:match "pong (%d+)")
        return pid and not old[pid]
    end, 10, "the reload")
    return self
end

-- Ends it: "QUIT" gracefully, "TERM" at once. Its exit code.
function Nginx:stop(signal)
    self:signal(signal or "QUIT")
    return self.proc:wait(20)
end

-- Ends it, when all has been well: it exits with 0, and complains of nothing but that.
function Nginx:ends(signal, expected)
    local status, complaints = self:stop(signal), self:complaints(expected)
    if status ~= 0 or complaints ~= "" then
        error(("nginx has ended with %s: %s"):format(tostring(status), complaints), 2)
    end
end

-- The lines of a reply, with "; " between them, are this.
function Nginx:says(path, text)
    local said = self:get(path, 60)
    said = said and said:gsub("\n$", ""):gsub("\n", "; ")
    if said ~= text then
        error(("%s says %s, not %s"):format(path, tostring(said), text), 2)
    end
end

-- Starts it, and waits until it answers.
function Nginx:start()
    local command = _M.command(self.dir)
    command.stdout, command.stderr, command.env = self.dir .. "/out", "stdout", self.opts.env
    local old = self.proc
    self.proc = proc.spawn(command)
    scope.replace_proc(old)
    sys.eventually(function()
        if not self.proc:alive() then
            error("nginx failed: " .. sys.read_file(self.dir .. "/out"), 0)
        end
        return select(2, self:get "/ping") == 200
    end, 10, "nginx")
    self.master = self.proc.pid
    return self
end

-- Besides what opts has it answers /ping, /stats, /memory, and /once?name=&wait=&lease=&hold=,
-- which takes a lock, gives it back, and says "ok" or the code of the error.
-- opts: nodes, server, http, main, first, init, init_worker (parts of the configuration), workers,
-- user, options (of the client, as Lua text), code_cache, modules, shutdown, root (a checkout to
-- take the library from), core (the folder of another core), env (variables of
-- the master, which workers have only if main says so)
function _M.nginx(opts)
    local self = setmetatable({ opts = opts, dir = scope.tmpdir() }, Nginx)
    self.port = sys.free_port()
    assert(sys.sh(("chmod 711 '%s'"):format(self.dir)))
    write_conf(self)
    return self:start()
end

return _M
