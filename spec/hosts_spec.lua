-- The same behaviour over every host.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"

describe("over the host", function()
    local cluster, nodes

    setup(function()
        cluster = support.cluster(3)
        local uris = cluster:uris()
        for i, uri in ipairs(uris) do
            uris[i] = ("%q"):format(uri)
        end
        nodes = "{ " .. table.concat(uris, ", ") .. " }"
    end)

    teardown(support.cleanup)

    before_each(function()
        cluster:flush()
    end)

    -- An unlock is done when a majority has answered.
    local function free()
        support.eventually(function() return cluster:keys() == 0 end, 5, "the releases")
    end

    for name, loop in pairs(behaviour.loops) do
        describe(name, function()
            for _, one in ipairs(behaviour.list) do
                it("a client " .. one[1], function()
                    local p = support.lua(("NODES = %s %s %s main(function() %s print 'ok' end)")
                        :format(nodes, loop, behaviour.prelude, one[2]), { stderr = "stdout" })
                    -- That it ends shows that the host lets its loop end.
                    local text = p:read_all(30)
                    assert.equal("ok\n", text)
                    assert.equal(0, p:wait(5))
                    free()
                end)
            end

            it("a client says so where it cannot wait", function()
                local p = support.lua(("NODES = %s %s %s print(select(2, "
                    .. "client:getLock('x'):lock()))"):format(nodes, loop, behaviour.prelude),
                    { stderr = "stdout" })
                assert.matches("redlock: phase: lock 'x'", p:read_all(10))
            end)
        end)
    end

    describe("nginx", function()
        it("a client does all of that, too", function()
            local server = {}
            for i, one in ipairs(behaviour.list) do
                server[i] = ([[location /%d { content_by_lua_block {
                    local NODES, HOST = nodes
                    %s
                    local spawn, sleep = ngx.thread.spawn, ngx.sleep
                    local ok, err = pcall(function() %s end)
                    ngx.print(ok and "ok" or tostring(err))
                } }]]):format(i, behaviour.prelude, one[2])
            end
            local ng = support.nginx { nodes = cluster, server = table.concat(server, "\n") }
            for i, one in ipairs(behaviour.list) do
                assert.equal("ok", ng:get("/" .. i), one[1])
                free()
            end
            assert.equal(0, ng:stop "QUIT")
            assert.equal("", ng:complaints())
        end)
    end)
end)
