-- A MariaDB server of its own, which speaks MySQL, on a socket in its folder.
local proc = require "spec.support.proc"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}

--- @return the words of a client of it, and what ends it; nil: none is installed
function _M.start()
    local dir = scope.tmpdir()
    if not sys.sh "command -v mariadbd mariadb-install-db mariadb > /dev/null" then
        return
    end
    assert(sys.sh(("mariadb-install-db --no-defaults --datadir=%s/data --user=$(id -un) "
        .. "--auth-root-authentication-method=normal > %s/log 2>&1"):format(dir, dir)))
    local server = proc.spawn { "sh", "-c", ("exec mariadbd --no-defaults --datadir=%s/data "
        .. "--socket=%s/socket --skip-networking --user=$(id -un)"):format(dir, dir), cwd = dir,
        stdout = dir .. "/log", stderr = "stdout" }
    local client = { "mariadb", "--no-defaults", "-uroot", "-BN", "-S", dir .. "/socket" }
    sys.eventually(function()
        return sys.sh(table.concat(client, " ") .. " -e 'CREATE DATABASE spec' 2> /dev/null")
    end, 60, "MariaDB")
    client[#client + 1] = "spec"
    return client, function()
        server:kill "TERM"
        server:wait(30)
    end
end

return _M
