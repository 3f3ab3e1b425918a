-- The manifests for Kubernetes, without a cluster: they are read, what hangs together is compared,
-- servers are started by the command of their container, and a spec is the controller.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local locking = require "spec.support.locking"
local pages = require "spec.support.pages"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE = "examples/kubernetes/README.md"
local THERE, yaml = pcall(require, "lyaml")         -- comes with busted

local function read(name)
    return assert(sys.read_file(build.root .. "/examples/kubernetes/" .. name))
end

-- The documents of a file: kind and name -> document.
local function documents(name)
    local list = {}
    for _, document in ipairs(yaml.load(read(name), { all = true })) do
        list[document.kind .. " " .. document.metadata.name] = document
    end
    return list
end

local function container(document)
    local spec = document.spec.jobTemplate and document.spec.jobTemplate.spec or document.spec
    return spec.template.spec.containers[1], spec.template
end

-- Rules of a user of the server without its password, as a set.
local function rules(text)
    local set = {}
    for word in text:gmatch "%S+" do
        set[word] = true
    end
    return set
end

if not THERE then
    return pending "no YAML for Lua here"
end

describe("the manifests for Kubernetes", function()
    local servers, programs, all

    setup(function()
        servers, programs = documents "servers.yaml", documents "programs.yaml"
        all = {}
        for _, list in ipairs { servers, programs } do
            for name, document in pairs(list) do
                all[name] = document
            end
        end
    end)

    it("name each other", function()
        local set, service = servers["StatefulSet redlock"], servers["Service redlock"]
        assert.equal(service.metadata.name, set.spec.serviceName)
        local labels = set.spec.template.metadata.labels
        for _, chosen in ipairs { set.spec.selector.matchLabels, service.spec.selector,
            servers["PodDisruptionBudget redlock"].spec.selector.matchLabels,
            servers["NetworkPolicy redlock"].spec.podSelector.matchLabels } do
            assert.same(labels, chosen)
        end
        for i = 0, set.spec.replicas - 1 do
            assert.truthy(read "redlock.conf":find(("redis://%s-%d.%s"):format(set.metadata.name, i,
                service.metadata.name), 1, true))
        end
        local generated, allowed = {}, servers["NetworkPolicy redlock"].spec.ingress[1].from[1]
        for _, map in ipairs(yaml.load(read "kustomization.yaml").configMapGenerator) do
            generated[map.name] = true
            for _, file in ipairs(map.files) do
                assert.truthy(read(file))
            end
        end
        for name, document in pairs(all) do
            if name:find "^%u%l+Set " or programs[name] then
                local c, template = container(document)
                local volumes, mounts = {}, {}
                for _, volume in ipairs(template.spec.volumes) do
                    volumes[volume.name] = volume
                    assert.truthy(not volume.configMap or generated[volume.configMap.name], name)
                    assert.truthy(not volume.secret or volume.secret.secretName == "redlock", name)
                end
                for _, mount in ipairs(c.volumeMounts) do
                    assert.truthy(volumes[mount.name], name)
                    mounts[mount.mountPath] = true
                end
                assert.truthy(mounts["/etc/redlock"] and mounts["/run/redlock"])
                assert.truthy(document == set or template.metadata.labels.locks
                    == allowed.podSelector.matchLabels.locks, name)
            end
        end
        assert.matches("\npassword_file = /run/redlock/password\n", read "redlock.conf", 1, true)
    end)

    it("settle what a rollout, a drain and a first start need", function()
        local set = servers["StatefulSet redlock"]
        assert.same({ 3, "Parallel", "OnDelete" }, { set.spec.replicas,
            set.spec.podManagementPolicy, set.spec.updateStrategy.type })
        assert.same({ "None", true }, { servers["Service redlock"].spec.clusterIP,
            servers["Service redlock"].spec.publishNotReadyAddresses })
        local budget = servers["PodDisruptionBudget redlock"].spec
        assert.same({ 1, "AlwaysAllow" }, { budget.maxUnavailable,
            budget.unhealthyPodEvictionPolicy })
        assert.equal("kubernetes.io/hostname", set.spec.template.spec.affinity.podAntiAffinity
            .requiredDuringSchedulingIgnoredDuringExecution[1].topologyKey)
        local redis = container(set)
        assert.equal(1, redis.readinessProbe.failureThreshold)
        assert.is_nil(redis.resources.limits.cpu)
        assert.equal(redis.resources.requests.memory, redis.resources.limits.memory)
        local room = tonumber(redis.resources.limits.memory:match "^(%d+)Mi$")
        assert.is_true(tonumber(read "redis.conf":match "\nmaxmemory (%d+)mb\n") <= room / 2)
        for _, document in pairs(all) do
            assert.is_not_equal("Job", document.kind)      -- one that runs init runs again
        end
    end)

    it("give users the rights of the page on three servers", function()
        local page = pages.text "examples/three-servers/README.md"
        local locks = rules(page:match "\nrules='(.-)'")
        local admin = rules(page:match "\nrules='(.-)'" .. page:match "\nuser admin.-%)( ~.-)\n")
        admin["+config|set"], admin["+acl|load"] = nil, nil     -- for files that are copied
        for name, wanted in pairs { locks = locks, admin = admin } do
            assert.same(wanted, rules(read "users.acl"
                :match("\nuser " .. name .. " on %u+ (.-)\n")))
        end
        assert.matches("^user default off\n", read "users.acl")
    end)

    it("are taken by the types of the Kubernetes API", function()
        if not support.sh "command -v kubectl > /dev/null" then
            return pending "no kubectl here"
        end
        assert.is_true(support.sh("kubectl kustomize " .. build.root
            .. "/examples/kubernetes > /dev/null"))
    end)
end)

describe("the pods for Kubernetes", function()
    local redis, home, dirs, ports, pods, clocks

    -- A text of the manifests, with the folders of one pod in place of those of its container.
    local function inside(i, text)
        return (text:gsub("/tmp", dirs[i]):gsub("/etc/redlock", dirs[i] .. "/etc")
            :gsub("/run/redlock", home .. "/run"):gsub("redis%-cli", "redis-cli -p " .. ports[i]))
    end

    local function start(i)
        assert(support.sh("mkdir -p " .. dirs[i] .. "/etc"))
        for _, file in ipairs { "users.acl", "ready.sh", "redis.conf" } do
            local text = inside(i, read(file))
            if file == "redis.conf" then
                text = text .. ("port %d\nbind 127.0.0.1\n"):format(ports[i])
            elseif file == "users.acl" then
                text = text .. "user root on >r ~* &* +@all\n"
            end
            sys.write_file(dirs[i] .. "/etc/" .. file, text)
        end
        pods[i] = support.spawn { unpack(redis.command, 1, 1), "-ec", inside(i, redis.args[1]),
            stdout = dirs[i] .. "/log", stderr = "stdout", env = clocks[i].env }
    end

    local function stop(i, signal)
        pods[i]:kill(signal or "TERM")
        assert.truthy(pods[i]:wait(20))
    end

    -- A probe of the manifest.
    local function probe(i, name)
        local words = { stdout = "null", stderr = "null",
            env = { PASSWORD_FILE = home .. "/run/password", PATH = os.getenv "PATH" } }
        for _, word in ipairs(redis[name].exec.command) do
            words[#words + 1] = inside(i, word)
        end
        return support.spawn(words):wait(20) == 0
    end

    local function ready(i)
        return probe(i, "readinessProbe")
    end

    local function all_ready()
        return ready(1) and ready(2) and ready(3)
    end

    -- As somebody with all rights.
    local function ask(i, ...)
        local words = { "redis-cli", "-p", tostring(ports[i]), "--user", "root", "--pass", "r",
            "--no-auth-warning", stdout = "pipe", stderr = "null" }
        for _, word in ipairs { ... } do
            words[#words + 1] = word
        end
        local _, said = cli.ends(support.spawn(words))
        return (said:gsub("\n$", ""))
    end

    local function environment()
        return { REDLOCK_CONFIG = home .. "/etc/redlock.conf", HOME = home, REDLOCK_CLUSTER = false,
            REDLOCK_NODES = false, PATH = home .. ":" .. os.getenv "PATH" }
    end

    before_each(function()
        redis = container((documents "servers.yaml")["StatefulSet redlock"])
        home, dirs, ports, pods, clocks = support.tmpdir(), {}, {}, {}, {}
        sys.write_file(home .. "/password", "secret\n")
        sys.write_file(home .. "/admin", "admin's\n")
        assert(support.sh(("cd %s; mkdir run etc; ln -s %s redlock; chmod 600 password admin; "
            .. "mv password admin run"):format(home, cli.REDLOCK)))
        local n = 0
        for i = 1, 3 do
            dirs[i], ports[i], clocks[i] = support.tmpdir(), support.free_port(), support.clock()
            start(i)
        end
        sys.write_file(home .. "/etc/redlock.conf", read "redlock.conf":gsub("/run/redlock",
            home .. "/run"):gsub("redis://redlock%-%d.redlock", function()
                n = n + 1
                return "redis://127.0.0.1:" .. ports[n]
            end) .. "max_lease = 1\nlease = 1\n")         -- quarantines of 2 s
        for i = 1, 3 do
            support.eventually(function() return support.connect(ports[i]) end, 20)
        end
    end)

    local function restart(i)
        stop(i)
        start(i)
        support.eventually(function() return support.connect(ports[i]) end, 20)
    end

    it("are ready when they vote and know the tokens, and alive all the time", function()
        assert.is_false(ready(1))
        local programs = locking.start(2, environment())     -- nobody runs `init`
        support.eventually(all_ready, 30)
        clocks[1]:set(30)
        support.eventually(function() return not ready(1) end, 10, "a stepped clock")
        clocks[1]:set(0)
        support.eventually(all_ready, 30)
        restart(2)
        assert.is_false(ready(2))
        support.eventually(all_ready, 30)
        local seen = programs:stop()
        assert.same({ 0, 0 }, { seen.twice, seen.back })

        local MARKER, FLOORS = "redlock:{server}:marker", "redlock:{server}:floor"
        local marker, base = ask(1, "GET", MARKER), ask(1, "HMGET", FLOORS, "base")
        for state, commands in pairs {
            ["has forgotten all"] = { { "FLUSHALL" } },
            ["has a marker of another type"] = { { "DEL", MARKER }, { "LPUSH", MARKER, marker } },
            ["has another marker"] = { { "SET", MARKER, "0123456789abcdef" .. marker:sub(17) } },
            ["has text that is no marker"] = { { "SET", MARKER, "a b v1 a" } },
            ["is in quarantine"] = { { "SET", MARKER, (marker:gsub(" a ", " l ")) } },
            ["knows no floors"] = { { "DEL", FLOORS } },
            ["has started with its data"] = { { "SAVE" }, { "SHUTDOWN" } },
        } do
            for _, command in ipairs(commands) do
                ask(1, unpack(command))
            end
            if state == "has started with its data" then
                assert.truthy(pods[1]:wait(20))
                start(1)
                support.eventually(function() return ask(1, "GET", MARKER) == marker end, 20)
                marker = marker:gsub("%x+( 0 )", ask(1, "INFO", "replication")
                    :match "\nmaster_replid:(................)" .. "%1", 1)
            end
            assert.is_false(ready(1), state)
            assert.is_true(probe(1, "livenessProbe"), state)
            ask(1, "DEL", MARKER)
            ask(1, "SET", MARKER, marker)
            ask(1, "HSET", FLOORS, "base", base)
            assert.is_true(ready(1), state)
        end
        sys.write_file(home .. "/run/password", "another\n")
        assert.is_false(ready(1))
        assert.is_true(probe(1, "livenessProbe"))
        sys.write_file(home .. "/run/password", "secret\nanother\n")
        assert.is_true(ready(1))
        stop(1)
        assert.is_false(ready(1))
        assert.is_false(probe(1, "livenessProbe"))
    end)

    local function command(text)
        sys.write_file(home .. "/kubectl", text)
        assert(support.sh("chmod +x " .. home .. "/kubectl"))
    end

    it("vote at once when somebody runs init as the page says; then the programs' commands lock",
        function()
        command "#!/bin/sh\nshift 4\nexec \"$@\"\n"                 -- exec -i deploy/shop -- ...
        sys.write_file(home .. "/admin.password", "admin's\n")
        local init = pages.snippets(PAGE, "sh")[2]:gsub("/tmp/", home .. "/tmp-")
        local status, said = cli.ends(support.spawn { "sh", "-ec", init, cwd = home,
            stdout = "pipe", stderr = "stdout", env = environment() }, 60)
        assert.equal(0, status, said)
        assert.is_true(all_ready())
        assert.is_nil(sys.read_file(home .. "/tmp-admin"))

        local programs = documents "programs.yaml"
        local function run(name, with)
            local c, words = container(programs[name]), { stdout = "pipe", env = environment() }
            for _, list in ipairs { c.command, c.args or {} } do
                for _, word in ipairs(list) do
                    words[#words + 1] = word:gsub("/opt/shop/[%w.]+", with)
                end
            end
            return support.spawn(words)
        end
        sys.write_file(home .. "/main.lua", [[
            assert(require("redlock").from_environment():getLock("x"):tryLock())
            print "locks"
        ]])
        assert.same({ 0, "locks\n" }, { cli.ends(run("Deployment shop", home .. "/main.lua")) })
        sys.write_file(home .. "/job", "#!/bin/sh\ntrap 'echo ends; exit 3' TERM\necho begins\n"
            .. "while :; do sleep 0.05; done\n")
        assert(support.sh("chmod +x " .. home .. "/job"))
        for _, name in ipairs { "Deployment scheduler", "CronJob nightly" } do
            local first = run(name, home .. "/job")
            assert.equal("begins", first:read_line(20))
            if name == "CronJob nightly" then
                assert.same({ 0, "" }, { cli.ends(run(name, home .. "/job")) })    -- as HELD
            end
            first:kill "TERM"
            assert.equal("ends", first:read_line(20))
            assert.equal(3, first:wait(20))
        end
    end)

    it("become five by the command of the page", function()
        command "#!/bin/sh\nshift 4\nexec \"$@\"\n"
        sys.write_file(home .. "/admin.password", "admin's\n")
        local programs = locking.start(2, environment())
        support.eventually(all_ready, 30)
        for i = 4, 5 do
            dirs[i], ports[i], clocks[i] = support.tmpdir(), support.free_port(), support.clock()
            start(i)
            support.eventually(function() return support.connect(ports[i]) end, 20)
        end
        sys.write_file(home .. "/ports", table.concat(ports, "\n") .. "\n")
        local change = pages.snippets(PAGE, "sh")[5]:gsub("/tmp/", home .. "/tmp-")
            :gsub("redis://redlock%-%$i%.redlock", "redis://127.0.0.1:$(sed -n $((i+1))p " .. home
                .. "/ports)")
        local status, said = cli.ends(support.spawn { "sh", "-ec", change, cwd = home,
            stdout = "pipe", stderr = "stdout", env = environment() }, 60)
        assert.equal(0, status, said)
        assert.matches("5 of 5 servers vote", said, 1, true)
        for i = 1, 5 do
            assert.is_true(ready(i))
        end
        local seen = programs:stop()
        assert.same({ 0, 0 }, { seen.twice, seen.back }, seen.errors)
    end)

    -- The loop of the page, with the controller of a StatefulSet behind `kubectl`: a server that is
    -- deleted comes back empty. kind: "probed", or "blind": ready is who answers.
    local function rollout(blind)
        command "#!/bin/sh\necho \"$*\"\nread answer\nexit $answer\n"
        local loop = pages.snippets(PAGE, "sh")[3]:gsub("sleep 2", "sleep 0.3")
        local p = support.spawn { "sh", "-ec", loop, stdin = "pipe", stdout = "pipe",
            env = environment() }
        local deleted = ""
        for line in function() return p:read_line(60) end do
            local answer = 0
            if line:find "^wait " then
                answer = (blind or all_ready()) and 0 or 1
            elseif not line:find "condition met" then
                local i = assert(line:match "^delete pod redlock%-(%d)$", line) + 1
                deleted = deleted .. i
                restart(i)
            end
            p:write(answer .. "\n")
        end
        assert.equal(0, p:wait(10))
        assert.equal("123", deleted)
    end

    it("are restarted as the page says without a lock refused or lost", function()
        local settings = sys.read_file(home .. "/etc/redlock.conf")     -- room for a pause
        sys.write_file(home .. "/etc/redlock.conf", (settings:gsub("lease = 1", "lease = 2")))
        local programs = locking.start(4, environment())
        support.eventually(all_ready, 30)
        -- A password is changed meanwhile: both are valid, then the new one is used.
        sys.write_file(home .. "/run/password", "secret\nnew\n")
        rollout(false)
        sys.write_file(home .. "/run/password", "new\n")
        assert.is_true(all_ready())
        assert.equal(0, (cli.ends(support.spawn { cli.REDLOCK, "run", "x", "--", "true",
            stdout = "pipe", env = environment() })))
        local seen = programs:stop()
        assert.same({ 0, 0, 0, 0 }, { seen.refused, seen.lost, seen.twice, seen.back }, seen.errors)
        assert.is_true(seen.longest < 2, seen.longest)
    end)

    it("stop all locks for a quarantine if each is restarted as soon as the last one answers",
        function()
        local programs = locking.start(4, environment())
        support.eventually(all_ready, 30)
        rollout(true)
        support.eventually(all_ready, 30)
        local seen = programs:stop()
        assert.same({ 0, 0 }, { seen.twice, seen.back }, seen.errors)
        assert.is_true(seen.lost >= 4 and seen.refused > 0 and seen.longest > 2.01, seen.longest)
    end)
end)
