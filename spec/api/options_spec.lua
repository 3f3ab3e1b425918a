local redlock = require "redlock"

local NODES = { "redis://127.0.0.1:1" }

describe("options", function()
    local function refused(opts, pattern)
        local ok, err = pcall(redlock.new, opts)
        assert.is_false(ok)
        assert.matches(pattern, err)
        return err
    end

    it("opens nothing", function()
        assert.equal("client(1 nodes, 0 held)", tostring(redlock.new { nodes = NODES }))
        assert.equal("client(1 nodes, 0 held)", tostring(redlock.new { nodes = NODES[1] }))
        assert.equal("client(2 nodes, 0 held)",
            tostring(redlock.new { nodes = " redis://a  redis://b\n" }))
    end)

    it("are checked by name", function()
        refused(nil, "bad options: a table is needed")
        refused({}, "bad option nodes")
        refused({ nodes = {} }, "bad option nodes")
        refused({ nodes = 1 }, "bad option nodes")
        refused({ nodes = " " }, "bad option nodes.*one or more server addresses")
        refused({ nodes = "redis://h redis://h" }, "nodes%[2%].*nodes%[1%] already")
        refused({ nodes = NODES, leese = 1 }, "unknown option 'leese'; known are: .*lease")
        refused({ nodes = NODES, [1] = 1 }, "unknown option '1'")
        refused({ nodes = { "redis://h", "redis://h:6379" } }, "nodes%[2%].*nodes%[1%] already")
        refused({ nodes = { "redis://h", 7 } }, "nodes%[2%]")
        -- A node that is not counted would make a majority smaller than it is for others.
        refused({ nodes = { "redis://a", nil, "redis://c" } }, "without gaps.*'3'")
        refused({ nodes = { "redis://a", b = "redis://b" } }, "without gaps.*'b'")
        refused({ nodes = { "redis://a", [0] = "redis://b" } }, "without gaps.*'0'")
        refused({ nodes = { host = "a", port = 1 } }, "without gaps")
        local many = {}
        for i = 1, 33 do
            many[i] = "redis://h:" .. i
        end
        refused({ nodes = many }, "33 servers are too many; at most 32")
        many[33] = nil
        assert.truthy(redlock.new { nodes = many })
    end)

    it("are in range", function()
        local function bad(name, ...)
            for _, value in ipairs { ... } do
                refused({ nodes = NODES, [name] = value }, "bad option " .. name)
            end
        end
        bad("lease", 0, -1, 0 / 0, math.huge, "1", 61, 0.002)
        bad("max_lease", 0, math.huge)
        bad("timeout", 0, -1, 0 / 0, true, 250)      -- milliseconds, no doubt
        bad("connect_timeout", 0, "x", 1000)
        bad("fallback", 0, -0.1, 200)
        bad("patience", -1, 0 / 0)
        bad("drift_factor", -0.1, 0.6, 0 / 0, "0.01")
        bad("prefix", 1, ("x"):rep(1025))
        bad("cluster", "", "a b", 1, true, ("x"):rep(33), "0123456789abcdef",
            "change.it")
        for _, name in ipairs { "user", "ca_file", "cert_file", "key_file",
            "password", "password_file" } do
            bad(name, "a\0b", 1)        -- C would take it for "a"
        end
        bad("label", 1, {}, "")
        bad("on_event", 1, true, "print")
        bad("max_waiting", 0, -1, 1.5, "10", math.huge)
        bad("restart_guard", 1, "on", "ignore")
        bad("host", true, "luv", {}, { wait = true })
        assert.truthy(redlock.new { nodes = NODES, lease = 61, max_lease = 61,
            patience = math.huge })
    end)

    it("say what to do about a lease that does not fit", function()
        refused({ nodes = NODES, lease = 90 },
            "bad option lease: 90 s is over max_lease %(60 s%); raise max_lease for every client")
        refused({ nodes = NODES, lease = 31, lock_delay = 30 },
            "bad option lease: 31 s is over max_lease %- lock_delay %(30 s%); raise max_lease")
        refused({ nodes = NODES, max_lease = 10 }, "bad option max_lease: 10 s is less than the "
            .. "lease %(30 s by default%); give a shorter lease as well")
        refused({ nodes = NODES, max_lease = 10, lease = 11 }, "bad option lease: 11 s is over")
        local lock = redlock.new({ nodes = NODES }):getLock "x"
        assert.error_matches(function() lock:tryLock(0, 90) end,
            "90 s is over max_lease %(60 s%); raise max_lease for every client, or extend in time")
        assert.error_matches(function() lock:tryLock(0, 60.0000001) end,
            "60.0000001 s is over max_lease %(60 s%)")
    end)

    it("blame the line that is wrong", function()
        local function wrong()
            redlock.new { nodes = NODES, lease = -1 }   -- this line
        end
        local line = debug.getinfo(wrong, "S").linedefined + 1
        local _, err = pcall(wrong)
        assert.matches("options_spec.lua:" .. line .. ":", err)
        local client = redlock.new { nodes = NODES }
        local lock = client:getLock "x"
        for _, call in ipairs {
            function() client:getLock "" end,
            function() lock:lock(-1) end,
            function() lock:tryLock(-1) end,
            function() lock:extend "x" end,
            function() client:using("x", {}, nil) end,
            function() client:using("", {}, print) end,
            function() client:getLock("x", { ower = 1 }) end,
            function() lock:check() end,
            function() redlock.primitive {} end,
            function() client:get({}, "x") end,
            function() client:import("", { primitive = 1 }) end,
        } do
            local _, text = pcall(call)
            assert.matches("options_spec.lua:" .. debug.getinfo(call, "S").linedefined .. ":", text)
        end
    end)
end)

describe("arguments", function()
    local client = redlock.new { nodes = NODES }
    local lock = client:getLock "x"

    it("that are wrong raise and name the argument", function()
        for _, name in ipairs { "", 1, true, ("x"):rep(65537) } do
            assert.error_matches(function() client:getLock(name) end, "bad name")
        end
        assert.error_matches(function() client:getLock() end, "bad name")
        for _, lease in ipairs { 0, -1, 0 / 0, math.huge, "1", true, 61 } do
            assert.error_matches(function() lock:lock(lease) end, "bad lease")
            assert.error_matches(function() lock:tryLock(0, lease) end, "bad lease")
            assert.error_matches(function() lock:extend(lease) end, "bad lease")
        end
        for _, wait in ipairs { -1, 0 / 0, "1", true } do
            assert.error_matches(function() lock:tryLock(wait) end, "bad wait")
        end
        assert.error_matches(function() client:using("x", { lock = 1 }, print) end,
            "unknown option 'lock'")
        assert.error_matches(function() client:using("x", 1, print) end, "bad options")
        assert.error_matches(function() client:using("x", { wait = -1 }, print) end, "bad wait")
        assert.error_matches(function() client:using("x", { lease = 0 }, print) end, "bad lease")
        assert.error_matches(function() client:using "x" end, "bad fn")
        -- Nobody's line is to blame.
        local _, err = pcall(coroutine.wrap(client.getLock), client, 1)
        assert.matches("^redlock: bad name", err)
    end)
end)
