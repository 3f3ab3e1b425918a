-- Passwords: where they come from, that they may change, and that nobody gets to see them.
local support = require "spec.support"
local sys = require "spec.support.sys"

-- Gives the user another password and ends the user's connections, which makes every client
-- authenticate again.
local function rotate(server, password)
    server:user("app", "on", "resetpass", ">" .. password, "~*", "&*", "+@all")
    server:call("CLIENT", "KILL", "USER", "app")
end

describe("passwords", function()
    local cluster = support.shared_cluster(3)

    before_each(function() cluster:each(function(s) rotate(s, "first") end) end)

    local function works(opts)
        local client = support.client(cluster, opts)
        local l = client:getLock "x"
        local ok, err = l:tryLock(5)
        assert.is_true(ok, tostring(err))
        assert.is_true(l:unlock())
        support.eventually(function()        -- the first one may come last
            return cluster[1]:call("CLIENT", "LIST"):find("user=app", 1, true)
        end)
        client:close()
    end

    -- What the first node says when there is no majority.
    local function row_of(opts)
        local client = support.client(cluster, opts)
        local row
        support.eventually(function()
            local ok, err = client:getLock("x"):tryLock(1)
            assert.is_nil(ok)
            row = err.nodes and err.nodes[1] or error(tostring(err))
            return row.code ~= "pending"
        end)
        client:close()
        return row
    end

    describe("come from", function()
        it("an option for all nodes", function()
            works { user = "app", password = "first" }
        end)

        it("a file, an environment variable, a function", function()
            local file = support.tmpdir() .. "/password"
            sys.write_file(file, "first\nnot this\n")
            works { user = "app", password_file = file }
            sys.write_file(file, "first\r\n")
            works { user = "app", password_file = file }
            sys.write_file(file, "first")
            works { user = "app", password_file = file }
            works { password = function() return "first", "app" end }
            works { user = "app", password = function() return "first" end }
            local c = support.lua(([[
                local client = require("redlock").new { nodes = %q, user = "app",
                    password_env = "REDIS_PASSWORD", cluster = "spec", restart_guard = true }
                assert(client:getLock("x"):tryLock(5))
                print "fine"
            ]]):format(cluster[1].uri), { env = { REDIS_PASSWORD = "first" } })
            assert.equal("fine", c:read_line(10))
        end)

        it("the node itself, which comes first", function()
            local nodes = {}
            for i, server in ipairs(cluster) do
                nodes[i] = { host = "127.0.0.1", port = server.port, user = "app",
                    password = function() return "first" end }
            end
            nodes[2] = "redis://app:first@127.0.0.1:" .. cluster[2].port
            nodes[3].user = nil
            local client = require("redlock").new { nodes = nodes, user = "nobody",
                password = "wrong", cluster = "spec" }
            local l = client:getLock "x"
            -- The third has a password but no user.
            assert.is_true(l:tryLock(5))
            assert.is_true(l:unlock())
            support.eventually(function()
                return client:stats().nodes[3].code == "auth"
            end)
            client:close()
        end)
    end)

    describe("that are wrong", function()
        it("are refused where they are given", function()
            local redlock = require "redlock"
            local function refused(opts, pattern)
                opts.nodes = opts.nodes or { "redis://h" }
                assert.error_matches(function() redlock.new(opts) end, pattern)
            end
            refused({ user = "app" }, "bad option user: a user needs a password")
            refused({ password = "a", password_file = "b" },
                "bad option password_file: there is password already")
            refused({ password_env = "NO_SUCH_VARIABLE" },
                "bad option password_env: there is no environment variable NO_SUCH_VARIABLE")
            refused({ password = 1 }, "bad option password")
            refused({ password = "" }, "bad option password: must not be empty")
            refused({ password_refresh = 0 }, "bad option password_refresh")
            refused({ nodes = { { host = "h", password_file = 1 } } },
                "bad nodes%[1%]%.password_file")
            refused({ nodes = { { host = "h", user = "a" } } }, "a user needs a password")
            refused({ cert_file = "x" }, "bad option key_file")
            refused({ tls_verify = 1 }, "bad option tls_verify")
            refused({ ca_file = 1 }, "bad option ca_file")
        end)

        it("name the file", function()
            local file = support.tmpdir() .. "/password"
            local function says(text, pattern)
                sys.write_file(file, text)
                local row = row_of { user = "app", password_file = file }
                assert.equal("auth", row.code)
                assert.matches("/password: " .. pattern, row.message)
            end
            says("", "no password of 1 to 8192 bytes")
            says("\nfirst", "no password of 1 to 8192 bytes")
            says(("x"):rep(9000), "no password of 1 to 8192 bytes")
            os.remove(file)
            local row = row_of { user = "app", password_file = file }
            assert.matches("/password: No such file", row.message)
        end)

        it("come from a function that fails", function()
            local function says(fn, pattern)
                local client = support.client(cluster, { user = "app", password = fn })
                local err = support.fails("config", client:getLock("x"):tryLock(1))
                assert.matches(pattern, tostring(err))
                client:close()
            end
            says(function() error "no token today" end, "function failed: .*no token today")
            -- It may repeat what a server told it.
            says(function() error("no\27[2J\nforged \155", 0) end, "failed: no%?%[2J%?forged %?$")
            says(function() end, "returned no password")
            says(function() return "" end, "returned no password")
            says(function() return "x", 1 end, "returned a user")
        end)

        it("are asked for anew, but not all the time", function()
            local calls = 0
            local client = support.client(cluster, { password = function()
                calls = calls + 1
                return "wrong" .. calls, "app"
            end })
            local finish = support.now() + 1
            repeat
                assert.is_nil(client:getLock("x"):tryLock(0))
            until support.now() > finish and calls > 1
            -- 0.1, 0.2, 0.4 s and so on after one another
            assert.is_true(calls >= 2 and calls <= 6, calls)
            client:close()
        end)
    end)

    describe("that change", function()
        it("in a file: a watchdog connects with the new one, while no Lua runs", function()
            local file = support.tmpdir() .. "/password"
            sys.write_file(file, "first")
            local client = support.warm_client(cluster, { user = "app", password_file = file,
                lease = 2.5 })
            local l = client:getLock "x"
            assert.is_true(l:tryLock(5))
            for _, password in ipairs { "second", "third" } do
                sys.write_file(file, password)
                cluster:each(function(s) rotate(s, password) end)
                support.sleep(3)                -- more than a lease
                assert.is_true(l:isValid())
            end
            assert.is_true(l:unlock())
            client:close()
        end)

        it("by a function, when a server refuses the old one: within the same call", function()
            local password = "first"
            local client = support.warm_client(cluster, { password = function()
                return password, "app"
            end })
            local l = client:getLock "x"
            for i = 1, 3 do
                support.sleep(1.2)              -- a connection that was stable is made at once
                password = "next" .. i
                cluster:each(function(s) rotate(s, password) end)
                local ok, err = l:tryLock(0, 5)
                assert.is_true(ok, tostring(err))
                assert.is_true(l:unlock())
            end
            client:close()
        end)

        it("by a function, while a lock is held by the watchdog", function()
            local password = "first"
            local client = support.warm_client(cluster, { lease = 8, password = function()
                return password, "app"
            end })
            local l = client:getLock "held"
            assert.is_true(l:tryLock(5))
            for i = 1, 3 do
                password = "next" .. i
                cluster:each(function(s) rotate(s, password) end)
                local finish = support.now() + 2
                repeat                          -- what a program does meanwhile
                    assert.is_boolean(client:getLock("other"):tryLock(0.5, 1) or false)
                    client:getLock("other"):unlock()
                until support.now() > finish
                support.eventually(function() return l:remaining() > 6 end)      -- renewed
            end
            assert.is_true(l:unlock())
            client:close()
        end)

        it("while somebody waits for a lock", function()
            local password = "first"
            local other = support.client(cluster)
            assert.is_true(other:getLock("x"):tryLock(5, 50))
            local c = support.client(cluster, { fallback = 0.1, password = function()
                return password, "app"
            end })
            local future = c:getLock("x"):tryLockAsync(20)
            assert.is_nil(future:get(0.3))
            password = "second"
            cluster:each(function(s) rotate(s, password) end)
            assert.is_nil(future:get(0.3))
            assert.is_true(other:getLock("x"):unlock())
            assert.is_true((future:get(10)))
            c:close()
            other:close()
        end)

        it("with their age, once for all nodes", function()
            local calls = 0
            local client = support.client(cluster, { password_refresh = 1.2, password = function()
                calls = calls + 1
                return "first", "app"
            end })
            assert.is_true(client:getLock("x"):tryLock(5))
            assert.equal(1, calls)
            client:getLock("x"):isLocked()
            support.sleep(1.3)
            assert.is_true(client:getLock("x"):extend())
            assert.equal(2, calls)
            client:close()
        end)

        it("not, when the function fails later: an event tells", function()
            local events, fail = {}, false
            local client = support.client(cluster, { password_refresh = 0.05,
                on_event = function(e)
                    events[#events + 1] = e.type == "password_failed" and e or nil
                end,
                password = function()
                    assert(not fail, "the metadata service is down")
                    return "first", "app"
                end })
            assert.is_true(client:getLock("x"):tryLock(5))
            fail = true
            support.sleep(0.1)
            assert.is_true(client:getLock("x"):extend())
            assert.matches("metadata service is down", events[1].message)
            client:close()
        end)

        it("not, and a host that logs is told each reason once", function()
            local lines, reason = {}, nil
            local client = support.client(cluster, { password_refresh = 0.02,
                password = function()
                    return reason and error(reason, 0) or "first", "app"
                end })
            client.events.warn = function(text) lines[#lines + 1] = text end
            assert.is_true(client:getLock("x"):tryLock(5))
            for n, word in ipairs { "down", "down", "gone" } do
                reason = word .. " since noon"
                support.sleep(0.15)
                assert.is_true(client:getLock("x"):isLocked())
                assert.equal(n == 3 and 2 or 1, #lines)
                assert.matches(reason, lines[#lines], 1, true)
            end
            client:close()
        end)
    end)
end)

describe("secrets", function()
    local SECRET = "hunter2"

    local function search(value, seen, path)
        if type(value) == "string" then
            assert(not value:find(SECRET, 1, true), path)
        elseif type(value) == "table" and not seen[value] then
            seen[value] = true
            for k, v in pairs(value) do
                search(k, seen, path)
                search(v, seen, path .. "." .. tostring(k))
            end
        end
    end

    -- Everything that a client shows which gets no vote from its node.
    -- @return the row of the node
    local function nothing_shows(opts)
        opts.on_event = function(e) search(e, {}, "event") end
        opts.connect_timeout = opts.connect_timeout or 5         -- it is to answer, if late
        local client = require("redlock").new(opts)
        local l = client:getLock "x"
        local row
        local function show(...)
            for i = 1, select("#", ...) do
                local value = select(i, ...)
                search({ value, tostring(value) }, {}, "shown")
            end
        end
        support.eventually(function()
            local ok, err = l:tryLock(0.3)
            assert.is_nil(ok)
            show(err)
            row = err.nodes[1]
            return row.code ~= "pending" and row.message ~= "not connected yet"
        end)
        show(l:isLocked())
        show(l:forceUnlock())
        show(client, l, client:check())
        search(client:stats(), {}, "stats")
        client:close()
        return row
    end

    it("are in no error, event, text or count", function()
        local server = support.server { password = "right" }
        local file = support.tmpdir() .. "/password"
        sys.write_file(file, SECRET .. "\n")
        local at = "127.0.0.1:" .. server.port
        for _, opts in ipairs {
            { nodes = { ("redis://:%s@%s"):format(SECRET, at) } },
            { nodes = { ("redis://%s:%s@%s"):format("app", SECRET, at) } },
            { nodes = { "redis://" .. at }, password = SECRET },
            { nodes = { "redis://" .. at }, password_file = file },
            { nodes = { "redis://" .. at }, password = function() return SECRET end },
        } do
            local row = nothing_shows(opts)
            assert.equal("auth", row.code)
            assert.equal("AUTH: WRONGPASS", row.message)
        end
        for _, opts in ipairs {
            { nodes = { ("rediss://:%s@%s"):format(SECRET, at) }, connect_timeout = 0.2 },
            { nodes = { ("redis://:%s@127.0.0.1:1"):format(SECRET) } },
            { nodes = { ("redis://:%s@no-such-host.invalid"):format(SECRET) } },
        } do
            nothing_shows(opts)
        end
    end)

    -- The name of a lock is among the words of a command that the server does not know.
    it("are in no error of a server that has accepted them", function()
        local server = support.server { password = SECRET, args = { "--rename-command", "EVALSHA",
            "", "--rename-command", "EVAL", "" } }
        local c = support.client({ server.uri }, { password = SECRET })
        local ok, err = c:getLock(SECRET):tryLock(0)
        assert.is_nil(ok)
        local text = tostring(err):gsub("lock '" .. SECRET .. "'", "")
        assert.matches("unknown command", text)
        assert.is_nil(text:find(SECRET, 1, true), text)
    end)

    it("are in no label of a holder", function()
        local server = support.server { password = SECRET }
        local c = support.client({ server.uri }, { password = SECRET })
        assert(server:call("SET", "x", ("0"):rep(40) .. " 19ab0000000 web " .. SECRET, "PX",
            60000))
        local said = { { c:getLock("x"):tryLock(0) }, { c:holder "x" }, { c:locks() } }
        search(said, {}, "answers")
        assert.equal("web *******", said[1][2].holder.label)
        assert.equal("web *******", said[2][1].label)
        assert.equal("web *******", said[3][1][1].holder.label)
        assert.is_nil(tostring(said[1][2]):find(SECRET, 1, true))
    end)

    describe("that a server quotes", function()
        it("because it does not know AUTH", function()
            local server = support.server { args = { "--rename-command", "AUTH", "" } }
            for _, opts in ipairs {
                { password = SECRET },
                { user = "locks", password = SECRET },
                { password = function() return SECRET end },
            } do
                opts.nodes = { server.uri }
                local row = nothing_shows(opts)
                assert.equal("auth", row.code)
                assert.equal("AUTH: ERR unknown command", row.message)
            end
        end)

        it("not, because it has none", function()
            local server = support.server()
            local row = nothing_shows { nodes = { server.uri }, password = SECRET }
            assert.equal("auth", row.code)
            assert.equal("AUTH: ERR called without any password configured", row.message)
        end)

        -- A peer that is no Redis: it takes lines for commands, and quotes each it does not know.
        for answers, code in pairs {
            ["-ERR no such user: hunter2\r\n"] = "auth",
            ["-hunter2: command not found\r\n"] = "auth",
            ["-LOADING hunter2\r\n"] = "auth",
            ["+OK\r\n-ERR DB index is out of range: hunter2\r\n"] = "config",
            ["+OK\r\n-NOAUTH hunter2\r\n"] = "auth",
            ["+OK\r\n+OK\r\n-ERR max number of clients reached: hunter2\r\n"] = "refused",
            ["+OK\r\n+OK\r\n-ERR hunter2\r\n"] = "refused",
            ["hunter2: command not found\r\n"] = "protocol",
            ["HTTP/1.1 400 hunter2\r\n"] = "protocol",
            [("+OK\r\n"):rep(100) .. "-ERR hunter2\r\n"] = "protocol",
        } do
            it("in " .. answers:sub(-40):gsub("%c+", " "), function()
                local h = support.hostile { reply = answers, close = true }
                local row = nothing_shows { nodes = { h.uri .. "/1" }, password = SECRET,
                    timeout = 5, connect_timeout = 5 }
                assert.equal(code, row.code, row.message)
                h:stop()
            end)
        end
    end)

    it("are not the values of locks, which a server quotes that does not know EVALSHA", function()
        local server = support.server { args = { "--rename-command", "EVALSHA", "" } }
        local client = support.client({ server.uri }, { label = false })
        local seen = 0
        support.eventually(function()
            local _, err = client:getLock("x"):tryLock(0.3)
            local row = err and err.nodes and err.nodes[1]
            local quoted = row and row.message:match "[`']x[`'] [`']([^`']+)[`']"
            if quoted then
                assert.matches("^" .. ("%x"):rep(20) .. ("%*"):rep(20) .. "$", quoted)
                seen = seen + 1
            end
            return seen > 0
        end)
        client:close()
    end)

    it("are not repeated by complaints about addresses", function()
        for _, node in ipairs {
            "redis://:hunter2@h:port", "redis://:hunter2@", "http://:hunter2@h", ":hunter2@h",
            "redis://:hunter2@h/x", "rediss://u:hunter2@h?x=1", "unix://:hunter2@relative",
            { host = "h", password = "hunter2", port = -1 }, { password = "hunter2" },
            { host = "h", password = "hunter2\0" }, { host = "h", password = "hunter2", x = 1 },
            { path = "/s", tls = true, password = "hunter2" },
        } do
            local ok, err = pcall(require("redlock").new, { nodes = { node } })
            assert.is_false(ok)
            search(err, {}, "error")
        end
        local _, err = pcall(require("redlock").new,
            { nodes = { "redis://:hunter2@h", "redis://:hunter2@h" } })
        search(err, {}, "error")
    end)
end)
