-- The server of the specs. REDIS_SERVER: a program, by name or path, that is started as
-- redis-server by everything they run, also by the command and the examples: it comes first on
-- the PATH under that name.
local build = require "spec.support.build"
local sys = require "spec.support.sys"

local _M = {}

local LINK = [[
program=$(command -v '%s') && mkdir -p '%s' && cd '%s' &&
    ln -s "$program" "link.$$" && mv -T "link.$$" redis-server
]]

local function prepend(server)
    local dir = ("%s/build/spec/servers/%s"):format(build.root, (server:gsub("[^%w.-]", "_")))
    local path = os.getenv "PATH"
    if path:sub(1, #dir) == dir then
        return
    elseif not sys.sh(LINK:format(server, dir, dir)) then
        error("REDIS_SERVER=" .. server .. ": there is no such program", 0)
    end
    sys.setenv("PATH", dir .. ":" .. path)
end

function _M.use_server()
    local server = os.getenv "REDIS_SERVER"
    if server then
        prepend(server)
    end
end

local major, minor

-- Whether the server is Redis of that version or later, or Valkey, which began as 7.2.
function _M.since(want_major, want_minor)
    if not major then
        local p = io.popen "redis-server --version"
        local text = p:read "*a"
        p:close()
        major, minor = text:match "Redis.* v=(%d+)%.(%d+)"
        major, minor = tonumber(major or 7), tonumber(minor or 2)
    end
    return major > want_major or major == want_major and minor >= want_minor
end

return _M
