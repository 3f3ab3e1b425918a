-- The rules that examples/access gives for the family are enough, and none of them is for nothing.
local support = require "spec.support"

-- The rules of the two commands there.
local function documented()
    local text = assert(io.open "examples/access/README.md"):read "*a"
    local section = assert(text:match "\n## Least privilege\n(.*)")
    local one = "`ACL SETUSER locks (.-)`"
    local basic, family, listing = section:match(one .. ".-" .. one .. ".-" .. one)
    local function words(list)
        local rules = {}
        for word in list:gmatch "%S+" do
            rules[#rules + 1] = word ~= ">PASSWORD" and word or ">pw"
        end
        return rules
    end
    return words(basic), words(family), words(listing)
end

describe("the documented ACL rules of the family", function()
    local basic, family, listing = documented()
    local cluster = support.shared_cluster(3)

    -- A client of a user with these rules, but for one.
    local function client_but(but, with_list)
        local argv = {}
        for _, list in ipairs { basic, family, with_list and listing or {} } do
            for _, rule in ipairs(list) do
                if rule ~= but then
                    argv[#argv + 1] = rule
                end
            end
        end
        local nodes = {}
        for i, server in ipairs(cluster) do
            server:call("ACL", "DELUSER", "locks")
            server:user("locks", unpack(argv))
            nodes[i] = server.uri
        end
        return support.client(nodes, { prefix = "app:", user = "locks", password = "pw",
            lease = 2, fallback = 0.2, timeout = 5 })
    end

    -- Uses all that there is; the first error, or nil.
    local function use(client, other)
        local pair = client:getReadWriteLock "rw"
        local numbered = client:getReadWriteLock("numbered", { fenced = true })
        local steps = {
            function() return pair:readLock():tryLock(1, 20) end,
            function() return pair:readLock():extend(20) end,
            function() return pair:readLock():isLocked() end,
            function()
                local l = other:getReadWriteLock("rw"):writeLock()
                local ok, err = l:tryLock(0.05)
                return not ok and err.code == "held" or nil, err
            end,
            function() return pair:readLock():unlock() end,
            function() return pair:writeLock():tryLock(1, 20) end,
            function() return pair:readLock():lock() end,
            function() return pair:writeLock():unlock() end,
            function() return numbered:writeLock():tryLock(1, 20) end,
            function() return numbered:writeLock():unlock() end,
            function()
                return client:getSemaphore("numbered", 2, { fenced = true }):tryAcquire(1, 20)
            end,
            function() return pair:readLock():unlock() end,
            function() return client:getMultiLock({ "a", "b" }):tryLock(1, 20) end,
            function() return client:getMultiLock({ "a", "b" }):extend(20) end,
            function() return client:getMultiLock({ "a", "b" }):unlock() end,
            function()
                local permit, err = client:getSemaphore("s", 1):tryAcquire(1, 20)
                if not permit then return nil, err end
                local ok, why = permit:extend(20)
                if not ok then return nil, why end
                return permit:release()
            end,
            function() return client:getSemaphore("s", 1):availablePermits() end,
            function() return client:getRateLimiter("r", 1, 1):tryAcquire() end,
            function() return client:getCountDownLatch("l"):trySetCount(1) end,
            function() return client:getCountDownLatch("l"):countDown "one" end,
            function() return client:getCountDownLatch("l"):await(1) end,
            function() return client:getCountDownLatch("l"):delete() end,
            function() return client:getFairLock("f"):tryLock(1, 20) end,
            function()
                local ok, err = other:getFairLock("f"):tryLock(0.05)
                return not ok and err.code == "held" or nil, err
            end,
            function() return client:getFairLock("f"):unlock() end,
            function() return client:once("o", 1, function() end) end,
        }
        for i, step in ipairs(steps) do
            local ok, err = step()
            if not ok then
                return i .. ": " .. tostring(err)
            end
        end
    end

    it("are enough", function()
        local client, other = client_but(), client_but()
        assert.is_nil(use(client, other))
        client:close()
        other:close()
    end)

    for _, rule in ipairs(family) do
        -- Without this one waiters of single names are not told, and ask from time to time.
        if rule ~= "+pubsub|numsub" then
            it("are all needed: " .. rule, function()
                local client, other = client_but(rule), client_but(rule)
                assert.matches("noperm", use(client, other))
                client:close()
                other:close()
            end)
        end
    end

    describe("and those of who lists locks", function()
        -- What a client with these rules sees, beside locks of others.
        local function seen(but)
            local client = client_but(but, true)
            local permit = assert(client:getSemaphore("s", 1):tryAcquire(1, 20))
            assert(client:getReadWriteLock("rw"):readLock():tryLock(1, 20))
            assert(client:getFencedLock("f"):tryLock(1, 20))
            cluster:each(function(s)
                s:call("SET", "others", ("a"):rep(40), "PX", 20000)
            end)
            local watcher = client_but(but, true)
            local list, err = watcher:locks()
            local text = {}
            for i, row in ipairs(list or {}) do
                text[i] = row.name .. " " .. row.kind
            end
            permit:release()
            client:close()
            watcher:close()
            return list and table.concat(text, ", ") or nil, err
        end

        it("are enough", function()
            assert.equal("f fenced lock, rw readers, s permits", (seen()))
        end)

        for _, rule in ipairs(listing) do
            it("are all needed: " .. rule, function()
                local text, err = seen(rule)
                assert.is_nil(text)
                local codes = {}
                for i, row in ipairs(err.nodes) do       -- one may not have the names yet
                    codes[i] = row.code
                end
                assert.matches("noperm", table.concat(codes, " "))
            end)
        end
    end)
end)
