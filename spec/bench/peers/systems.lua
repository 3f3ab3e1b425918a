-- What make bench-peers compares: each system with its servers on free ports of loopback.
local support = require "spec.support"
local turns = require "spec.bench.turns"

local _M = {}

local MEMBERS = 3

-- A server that support does not know, with its methods.
local Member = {}
Member.__index = Member

local function member(port, argv)
    argv.stdout, argv.stderr = argv.dir .. "/log", "stdout"
    return setmetatable({ port = port, proc = support.spawn(argv) }, Member)
end

function Member:freeze()
    self.proc:kill "STOP"
end

function Member:thaw()
    self.proc:kill "CONT"
end

function Member:kill()
    self.proc:kill "KILL"
    self.proc:wait()
end

--- Waits until a member leads, and puts it last; nothing where no member does.
function _M.leader_last(members)
    return not members.leads or support.eventually(function()
        for i, one in ipairs(members) do
            if not one.proc:alive() then
                error("a member has ended", 0)
            elseif members.leads(one) then
                table.insert(members, table.remove(members, i))
                return members
            end
        end
    end, 60, "a leader")
end

local function etcd(bin)
    local ports, urls, members = {}, {}, {}
    for i = 1, MEMBERS do
        ports[i] = { support.free_port(), support.free_port() }
        urls[i] = ("m%d=http://127.0.0.1:%d"):format(i, ports[i][2])
    end
    for i = 1, MEMBERS do
        local client = "http://127.0.0.1:" .. ports[i][1]
        local peer, dir = urls[i]:match "=(.*)", support.tmpdir()
        members[i] = member(ports[i][1], { bin .. "/etcd", "--name", "m" .. i, "--data-dir",
            dir .. "/data", "--initial-cluster", table.concat(urls, ","),
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, dir = dir })
    end
    members.leads = function(one)
        return turns.first_line(("ETCDCTL_API=3 %s/etcdctl --endpoints=127.0.0.1:%d "
            .. "endpoint status 2> /dev/null"):format(bin, one.port)):find ", true, false,"
    end
    return members
end

local function write(path, text)
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
end

-- Times as in Debian's zoo.cfg, but that sessions may be shorter.
local ZOO_CFG = "tickTime=2000\ninitLimit=10\nsyncLimit=5\nminSessionTimeout=1000\n"
    .. "admin.enableServer=false\nclientPortAddress=127.0.0.1\n"

local function zookeeper(jars)
    local list, ports, members = "", {}, {}
    for i = 1, MEMBERS do
        ports[i] = support.free_port()
        list = list .. ("server.%d=127.0.0.1:%d:%d\n"):format(i, support.free_port(),
            support.free_port())
    end
    for i = 1, MEMBERS do
        local dir = support.tmpdir()
        write(dir .. "/myid", i)
        write(dir .. "/zoo.cfg", ZOO_CFG .. list .. ("dataDir=%s\nclientPort=%d\n"):format(dir,
            ports[i]))
        members[i] = member(ports[i], { "java", "-cp", jars .. "/*",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", dir .. "/zoo.cfg", dir = dir })
    end
    members.leads = function(one)
        return turns.first_line(("bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d && printf srvr >&3 && "
            .. "grep ^Mode <&3' 2> /dev/null"):format(one.port)):find "leader"
    end
    return members
end

-- It refuses to run as root.
local function postgresql(bin)
    local dir, port = support.tmpdir(), support.free_port()
    local root = turns.first_line "id -u" == "0"
    local as = root and "setpriv --reuid=nobody --regid=nogroup --clear-groups " or ""
    if not support.sh(("mkdir %s/data && %s && %s%s/initdb -D %s/data -U bench -A trust > "
        .. "%s/initdb.log 2>&1"):format(dir, root and ("chmod 711 %s && chown nobody %s/data")
        :format(dir, dir) or "true", as, bin, dir, dir)) then
        error("initdb failed", 0)
    end
    local argv = { dir = dir }
    for word in as:gmatch "%S+" do
        argv[#argv + 1] = word
    end
    for _, word in ipairs { bin .. "/postgres", "-D", dir .. "/data", "-p", port, "-k", "" } do
        argv[#argv + 1] = word
    end
    local server = member(port, argv)
    server.kill = function(self)              -- all its processes end, and its shared memory
        self.proc:kill "INT"
        self.proc:wait()
    end
    support.eventually(function()
        return support.sh(("%s/pg_isready -q -h 127.0.0.1 -p %d"):format(bin, port))
    end, 60, "PostgreSQL")
    return { server }
end

--- @param peers  the folder that fetch has filled
--- @return a list of { name, start(), argv(members), told }: `told`, whether a holder hears of a
-- loss at all; else a text that says what it has instead
function _M.list(peers)
    local debian = peers .. "/debian"
    local python = debian .. "/usr/lib/python3/dist-packages"
    local pg = turns.first_line(("ls -d /usr/lib/postgresql/*/bin %s/usr/lib/postgresql/*/bin "
        .. "2> /dev/null"):format(debian))
    local here = "spec/bench/peers/"
    local function script(interpreter, file, kind, env)
        return function(members)
            local argv = { interpreter, here .. file, kind, env = env }
            for _, one in ipairs(members) do
                argv[#argv + 1] = kind and one.port or one.uri
            end
            return argv
        end
    end
    local function node(kind)
        return script("node", "peer.js", kind, { NODE_PATH = peers .. "/npm/node_modules" })
    end
    local function py(kind)
        return script("/usr/bin/python3", "peer.py", kind, { PYTHONPATH = python })
    end
    local function redis(n)
        return function() return support.cluster(n or MEMBERS) end
    end
    local ours = script(arg[-1] or "luajit", "redlock.lua", nil, support.lua_env())
    local fixed = "a lease of fixed length; the caller compares clocks"
    return {
        { name = "redlock", start = redis(), argv = ours, told = true },
        { name = "redlock", start = redis(1), argv = ours, told = true },
        { name = "npm redlock 4.2", start = redis(), argv = node "redlock4", told = fixed },
        { name = "npm redlock 5 beta", start = redis(), argv = node "redlock5", told = true },
        { name = "npm redis-semaphore", start = redis(), argv = node "redis-semaphore",
            told = true },
        { name = "lua-resty-redis", start = redis(), told = fixed,
            argv = require("spec.bench.peers.resty").worker },
        { name = "redis-py Lock", start = redis(1), argv = py "redis-py", told = fixed },
        { name = "etcd", argv = node "etcd", told = true,
            start = function() return etcd(debian .. "/usr/bin") end },
        { name = "ZooKeeper", argv = py "zookeeper", told = true,
            start = function() return zookeeper(debian .. "/usr/share/java") end },
        { name = "PostgreSQL", argv = py "postgresql",
            told = "no end: the lock lasts as long as the connection",
            start = function() return postgresql(pg) end },
    }
end

return _M
