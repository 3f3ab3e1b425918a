-- A PostgreSQL server of its own, which listens on a socket in its folder. It refuses to run as
-- root, so there it runs as nobody.
local proc = require "spec.support.proc"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

local function bin()
    local p = io.popen "ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -1"
    local dir = p:read "*l"
    p:close()
    return dir
end

-- The environment in which psql finds it, and what ends it; nil: none is installed.
function _M.start()
    local dir, programs = scope.tmpdir(), bin()
    if not programs then
        return
    end
    local root = sys.sh "test $(id -u) = 0"
    local as = root and "setpriv --reuid=nobody --regid=nogroup --clear-groups " or ""
    assert(not root or sys.sh("chown nobody " .. dir))
    assert(sys.sh(("cd %s && %s%s/initdb -D data -U spec -A trust --no-sync > /dev/null")
        :format(dir, as, programs)))
    local server = proc.spawn { "sh", "-c", ("exec %s%s/postgres -D data -k %s -h '' -F")
        :format(as, programs, dir), cwd = dir, stdout = dir .. "/log", stderr = "stdout" }
    local env = { PGHOST = dir, PGUSER = "spec", PGDATABASE = "postgres" }
    sys.eventually(function()
        return sys.sh(("PGHOST=%s %s/pg_isready -q"):format(dir, programs))
    end, 30, "PostgreSQL")
    return env, function()
        server:kill "INT"
        server:wait(20)
    end
end

return _M
