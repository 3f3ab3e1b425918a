local uri = require "redlock.servers.uri"

local function node(value)
    return uri.node(value, "nodes[1]")
end

describe("addresses", function()
    local good = {
        ["redis://10.0.0.1"] = { host = "10.0.0.1", port = 6379, db = 0,
            label = "redis://10.0.0.1:6379" },
        ["valkey://example.org:7000/3"] = { host = "example.org", port = 7000, db = 3,
            label = "redis://example.org:7000/3" },
        ["REDIS://h/"] = { host = "h", port = 6379, db = 0 },
        ["redis://[::1]:6380"] = { host = "::1", port = 6380, label = "redis://[::1]:6380" },
        ["redis://[fe80::1]"] = { host = "fe80::1", port = 6379 },
        ["redis://app:pw@h:1"] = { user = "app", password = "pw", host = "h", port = 1,
            label = "redis://h:1" },
        ["redis://:pw@h"] = { password = "pw", host = "h" },
        ["redis://pw@h"] = { password = "pw", host = "h" },
        ["redis://a%3Ab:p%40%2F:w@h"] = { user = "a:b", password = "p@/:w", host = "h" },
        ["redis://u:p@x@h"] = { user = "u", password = "p@x", host = "h" },
        ["unix:///run/redis.sock"] = { path = "/run/redis.sock", db = 0,
            label = "unix:///run/redis.sock" },
        ["unix:///run/redis.sock?db=4"] = { path = "/run/redis.sock", db = 4,
            label = "unix:///run/redis.sock?db=4" },
        ["unix://app:pw@/r.sock"] = { path = "/r.sock", user = "app", password = "pw" },
    }
    for text, want in pairs(good) do
        it("reads " .. text, function()
            local got = node(text)
            for field, value in pairs(want) do
                assert.equal(value, got[field], field)
            end
            assert.equal(want.user, got.user)
            assert.equal(want.password, got.password)
            assert.equal(want.path, got.path)
        end)
    end

    it("takes tables", function()
        local got = node { host = "h", port = 1, db = 2, user = "u", password = "p" }
        assert.same({ host = "h", port = 1, db = 2, user = "u", password = "p",
            label = "redis://h:1/2" }, got)
        assert.equal("/s", node({ path = "/s" }).path)
    end)

    it("have a label that reads as the same server, whatever is in them", function()
        for value, label in pairs {
            ["redis://a%2Fb%40c%3F:7/1"] = "redis://a%2Fb%40c%3F:7/1",
            ["redis://[fe80::1%25eth0]"] = "redis://[fe80::1%25eth0]:6379",
            ["unix:///r%3Fdb=2%0A"] = "unix:///r%3Fdb%3D2%0A",
        } do
            local got = node(value)
            assert.equal(label, got.label)
            assert.same(got, node(label))
        end
        assert.not_equal(node({ path = "/r?db=1" }).label, node({ path = "/r", db = 1 }).label)
    end)

    it("have one also where they are anything, or are refused", function()
        local parts = { "redis://", "unix://", "u:p@", "[::1]", ":6379", "/0", "?db=1", "%40",
            "%00", "%", "h", "/", "@", ":", "?", " ", "\0", "\255", ".", "1" }
        math.randomseed(7)
        local read = 0
        for _ = 1, 20000 do
            local text = parts[math.random(2)]
            for _ = 1, math.random(6) do
                text = text .. parts[math.random(#parts)]
            end
            local ok, got = pcall(node, text)
            if ok then
                read = read + 1
                local again = node(got.label)
                for _, field in ipairs { "host", "port", "path", "db", "label" } do
                    assert.equal(got[field], again[field], text)
                end
                assert.is_nil(got.label:find "%c", text)
                assert.is_nil(again.user or again.password, text)
            else
                assert.matches("bad nodes%[1%]", got, text)
            end
        end
        assert.is_true(read > 1000, read)
    end)

    local bad = {
        "10.0.0.1", "", "http://h", "redis://", "redis://:6379", "redis://h:0", "redis://h:65536",
        "redis://h:port", "redis://h/x", "redis://h/70000", "redis://::1", "redis://h/1/2",
        "redis://h?x=1", "unix://", "unix://relative", "unix:///s?x=1", "redis://u:@%00",
        "unix:///" .. ("x"):rep(108),
        {}, { host = "" }, { host = "h", path = "/s" }, { host = 1 }, { host = "h", port = "1" },
        { host = "h", db = -1 }, { host = "h", db = 1.5 }, { host = "h", prot = 1 },
        { path = "relative" }, { path = "" }, { path = "/" }, { path = "/s", port = 1 },
        { host = "h", user = "u" }, { host = "h\0", }, { host = "h", password = 1 },
        5, true,
    }
    for i, value in ipairs(bad) do
        it("refuses number " .. i .. ": " .. tostring(value), function()
            local ok, err = pcall(node, value)
            assert.is_false(ok)
            assert.is_string(err)
            assert.matches("bad nodes%[1%]", err)
        end)
    end

    it("come with the remedy for what people write", function()
        local in_password = "write / as %2F , as %2C ? as %3F and a space as %20, or use "
            .. "password_file"
        for text, remedy in pairs {
            ["127.0.0.1:7"] = "not '127.0.0.1:7': write redis://127.0.0.1:7",
            ["localhost:7"] = "not 'localhost:7': write redis://localhost:7",
            ['"redis://h"'] = "leave out quotes and brackets",
            ["'redis://h'"] = "leave out quotes and brackets",
            ['["redis://h"]'] = "leave out quotes and brackets",
            ["redis://:p/ss@h"] = in_password, ["redis://:p?ss@h"] = in_password,
            ["redis://:p,ss@h"] = in_password, ["redis://:p ss@h"] = in_password,
            ["redis://user name:pw@h"] = in_password,
            ["redis://h?timeout=5"] = "nothing may follow",
        } do
            local ok, err = pcall(require("redlock.servers.options").new, { nodes = text })
            assert.is_false(ok)
            assert.matches(remedy, err, 1, true)
            assert.is_nil(err:find("ss@", 1, true))
        end
    end)

    it("with TLS are shown so", function()
        local n = node "rediss://h"
        assert.same({ "rediss://h:6379", true }, { n.label, n.tls })
        assert.equal("rediss://h:1/2", node("valkeys://u:p@h:1/2").label)
        local named = node { host = "10.0.0.1", tls = true, server_name = "redis-1" }
        assert.same({ "rediss://10.0.0.1:6379", "redis-1" }, { named.label, named.server_name })
        for _, value in ipairs { { path = "/s", tls = true }, { host = "h", tls = 1 },
            { host = "h", tls = true, server_name = "" }, { host = ".h", tls = true },
            { host = "h", tls = true, server_name = ".test" },
            { host = "h", tls = true, server_name = "a\nb" },
            { host = "h", tls = true, server_name = ("a"):rep(256) },
            { host = "h", server_name = "x" }, { host = "h", tls = true, server_name = 1 } } do
            assert.error_matches(function() node(value) end, "bad nodes%[1%]")
        end
    end)
end)
