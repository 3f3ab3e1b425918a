-- Who may change the list of servers: a user with the rules of examples/members/README.md. Others
-- may read it.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"

-- The rules of a command in a page.
local function documented(page, user)
    local text = assert(io.open("examples/" .. page .. "/README.md")):read "*a"
    local rules = {}
    for word in text:match("`ACL SETUSER " .. user .. " (.-)`"):gmatch "%S+" do
        rules[#rules + 1] = word ~= ">PASSWORD" and word or ">pw"
    end
    return rules
end

describe("the documented ACL rules of lists that change", function()
    local members, locks = documented("members", "members"), documented("access", "locks")
    local cluster

    after_each(support.cleanup)

    local function new_client(servers, more)
        local options = quarantine.options { timeout = 2, connect_timeout = 5, password = "pw" }
        for name, value in pairs(more) do
            options[name] = value
        end
        return support.warm_client(servers, options)
    end

    -- Three servers in a list, and one that is new, with these users.
    local function begin(but)
        cluster = support.cluster(4, { new = true })
        local rules = {}
        for _, rule in ipairs(members) do
            rules[#rules + 1] = rule ~= but and rule or nil
        end
        local first = { cluster[1], cluster[2], cluster[3] }
        local admin = support.warm_client(first, quarantine.options())
        assert(admin:init())
        admin:close()
        cluster:each(function(s)
            s:user("members", unpack(rules))
            s:user("locks", unpack(locks))
            s:call("ACL", "LOG", "RESET")
        end)
        return first
    end

    it("are enough", function()
        local first = begin()
        local client = new_client(first, { user = "members" })
        assert(client:members { online = true })
        assert(client:members { remove = cluster[1].uri, add = cluster[4].uri })
        assert(client:members { finish = true })
        cluster:each(function(s) assert.same({}, s:call("ACL", "LOG")) end)
    end)

    it("are needed, each of them", function()
        for _, but in ipairs { "~redlock.members", "~redlock:{redlock.members}:fence",
            "~redlock:{server}:marker", "~redlock:{server}:members", "~redlock:{server}:ballot",
            "~redlock:{server}:floor", "+set", "+get", "+mget", "+hmget", "+info", "+eval" } do
            local first = begin(but)
            local client = support.client(first, quarantine.options { timeout = 2,
                connect_timeout = 5, password = "pw", user = "members" })
            local ok
            local ended = support.now() + 6
            pcall(function()
                ok = client:members { online = true, progress = function()
                    assert(support.now() < ended)
                end }
            end)
            assert.is_nil(ok, but)
            support.cleanup()
        end
    end)

    it("let the users of programs read the list, and not write it", function()
        local first = begin()
        local client = new_client(first, { user = "locks", prefix = "app:" })
        assert.equal(2, assert(client:members()).epoch)
        local _, err = client:members { online = true }
        assert.equal("config", err.code)
        client:close()
        local conn = assert(support.connect(cluster[1].port))
        assert.equal("OK", conn:call("AUTH", "locks", "pw"))
        for _, argv in ipairs { { "SET", "redlock:{server}:ballot", "1" },
            { "SET", "redlock:{server}:members", "v2" }, { "SET", "redlock.members", "1" } } do
            if support.since(7, 0) or not argv[2]:find "members$" then
                local reply, why = conn:call(unpack(argv))
                assert.matches("NOPERM", tostring(why or reply))
            end
        end
    end)
end)
