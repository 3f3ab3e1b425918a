-- examples/gateway: clients of plugins whose configuration changes; and what a worker uses.
local support = require "spec.support"

local INIT = [[
    clients = require "examples.gateway.clients"
    told = false
    known = {}                       -- every client that a request had
    function has(client)
        for i, one in ipairs(known) do
            if one == client then
                return i
            end
        end
        known[#known + 1] = client
        return #known
    end
]]

-- Like a gateway, gives each request a new table: what /conf was told last.
local SERVER = [[
    location /conf { content_by_lua_block {
        told = { nodes = nodes, prefix = ngx.var.arg_prefix, password = ngx.var.arg_password,
            user = ngx.var.arg_password and "app" }
        ngx.print(tostring(clients.check(told)))
    } }
    location /retire { content_by_lua_block { clients.retire "plugin" } }
    location /run {
        access_by_lua_block {
            local conf = { nodes = { unpack(told.nodes) }, prefix = told.prefix, user = told.user,
                password = told.password }
            local client = clients.enter("plugin", conf)
            assert(client == clients.enter("plugin", { nodes = {} }))
            ngx.ctx.lock = client:getLock(ngx.var.arg_name)
            local ok, err = ngx.ctx.lock:tryLock(5)
            if not ok then
                ngx.log(ngx.NOTICE, err)
                ngx.exit(503)
            end
        }
        content_by_lua_block {
            local lock, go_on = ngx.ctx.lock, ngx.var.arg_until
            while go_on and not ngx.shared.shared:get(go_on) do
                ngx.sleep(0.01)
            end
            local extended, err = lock:extend()
            ngx.print(has(clients.enter("plugin", told)), " ", tostring(extended or err))
        }
        log_by_lua_block { clients.leave "plugin" }
    }
    location /go { content_by_lua_block { ngx.shared.shared:set(ngx.var.arg_on, true) } }
    location /groups { content_by_lua_block {
        for i = 1, ngx.var.arg_n do
            -- That user needs no password, and takes any.
            local client = clients.enter("group" .. i, { nodes = nodes, prefix = i .. ":",
                user = "default", password = "p" .. i })
            assert(client:getLock("x"):tryLock(5))
            clients.leave("group" .. i)
        end
        ngx.print "ok"
    } }
    location /held { content_by_lua_block {
        local client = clients.enter("plugin", told)
        for i = 1, ngx.var.arg_n do
            assert(client:getLock("many" .. i, { owner = "nightly" }):tryLock(5))
        end
        ngx.print "ok"
    } }
    location /closed { content_by_lua_block {
        for i, client in ipairs(known) do
            ngx.print(i, " ", client:connect(5) and "open" or "closed", " ")
        end
    } }
]]

describe("the clients of a gateway", function()
    local cluster = support.shared_cluster(3, { unnamed = true })
    local ng

    before_each(function() ng = support.nginx { nodes = cluster, init = INIT, server = SERVER } end)
    after_each(function() ng:ends "QUIT" end)

    -- A request that holds a lock until /go names it; returns when it has the lock.
    local function holder(name)
        local request = ng:begin(("/run?name=%s&until=%s"):format(name, name))
        support.eventually(function() return cluster[1]:call("KEYS", "*" .. name)[1] end)
        return request
    end

    local function ends(request, name, answer)
        ng:get("/go?on=" .. name)
        assert.equal(answer, (request:finish()))
    end

    it("are made once for a configuration, and closed when it has changed", function()
        ng:get "/conf?prefix=a:"
        assert.equal("1 true", (ng:get "/run?name=x"))
        local long = holder "long"
        ng:get "/conf?prefix=b:"
        assert.equal("2 true", (ng:get "/run?name=long"))
        assert.equal("2 true", (ng:get "/run?name=x"))
        assert.equal("1 open 2 open ", (ng:get "/closed"))
        ends(long, "long", "1 true")
        assert.equal("1 closed 2 open ", (ng:get "/closed"))
        cluster:await_free(5)
        ng:get "/retire"
        assert.equal("1 closed 2 closed ", (ng:get "/closed"))
        assert.equal("3 true", (ng:get "/run?name=x"))
    end)

    it("use a new password without a dropped lock", function()
        local function rotate(password)
            cluster:each(function(s)
                s:user("app", "on", "resetpass", ">" .. password, "~*", "&*", "+@all")
                s:call("CLIENT", "KILL", "USER", "app")
            end)
            ng:get("/conf?password=" .. password)
        end
        rotate "first"
        local long = holder "long"
        for i = 2, 4 do
            rotate("number" .. i)
            assert.equal("1 true", (ng:get "/run?name=x"))
        end
        ends(long, "long", "1 true")
        assert.equal("1 open ", (ng:get "/closed"))
        cluster:await_free(5)
    end)

    it("are checked without being used", function()
        ng:get "/conf?prefix=a:"
        assert.equal("true", (ng:get "/conf?prefix=a:"))
        assert.equal("nil", (ng:get("/conf?prefix=" .. ("x"):rep(1025))))
    end)

    -- The table of the page.
    it("cost a worker a thread and some descriptors for each group of settings", function()
        local pid = ng:workers()[1]
        local function uses()
            local clients = cluster[1]:call("CLIENT", "LIST")
            return { threads = support.threads(pid), fds = support.fds(pid),
                rss = support.rss(pid), connections = select(2, clients:gsub(" name=redlock", "")) }
        end
        local before = uses()
        local function grown(threads, connections, fds, kb)
            support.eventually(function()
                local now = uses()
                return now.fds - before.fds <= fds
                    and now.connections - before.connections == connections
            end)
            local now = uses()
            assert.equal(threads, now.threads - before.threads)
            assert.equal(connections, now.connections - before.connections)
            assert.is_true(now.rss - before.rss <= kb, now.rss - before.rss)
        end
        ng:get "/conf?prefix=a:"
        for i = 1, 10 do
            assert.equal("1 true", (ng:get("/run?name=x" .. i)))
        end
        grown(1, 1, 3 + 4 + 3, 3000)
        assert.equal("ok", (ng:get "/groups?n=20"))
        grown(21, 21, 21 * (3 + 4) + 3, 3000 + 20 * 600)
        local other = support.client(cluster)        -- whose connection counts, too
        assert(other:getLock("a:held"):tryLock(5))
        before.connections = before.connections + 1
        local waiter = ng:begin "/run?name=held"
        support.eventually(function()
            return cluster[1]:call("PUBSUB", "NUMSUB", "redlock:{a:held}:free")[2] == 1
        end)
        assert(other:getLock("a:held"):unlock())
        assert.equal("1 true", (waiter:finish()))
        grown(21, 22, 21 * (3 + 4) + 3 + 3, 3000 + 20 * 600)
        assert.equal("ok", (ng:get "/held?n=1000"))
        grown(21, 22, 21 * (3 + 4) + 3 + 3, 3000 + 20 * 600 + 1000 * 6)
        other:close()
    end)
end)
