-- Deadlocks across processes (the option deadlocks) where an event loop runs.
local behaviour = require "spec.support.behaviour"
local hosted = require "spec.support.hosted"
local support = require "spec.support"

local WORK = [[
    local a, b = new { deadlocks = "end", label = "A" }, new { deadlocks = "tell", label = "B" }
    local said = {}
    -- One that holds a name, and waits for another one behind others of its process.
    spawn(function()
        local l = b:getLock "two"
        assert(l:tryLock(5))
        sleep(0.2)
        assert(b:getLock "one":tryLock(40))
        said.b = true
        assert(b:getLock "one":unlock() and l:unlock())
    end)
    spawn(function()
        local first = a:getLock("two", { owner = "first in line" })
        sleep(0.1)
        assert(first:tryLock(60) and first:unlock())
        said.first = true
    end)
    local l = a:getLock "one"
    assert(l:tryLock(5))
    sleep(0.5)
    local ok, err = a:getLock "two":tryLock(60)
    assert(not ok and err.code == "deadlock" and #err.chain == 2, tostring(err))
    assert(err.chain[1].name == "two" and err.chain[1].label == "B")
    assert(err.chain[2].name == "one" and err.chain[2].label == "A")
    assert(l:unlock())
    local from = now()
    while not (said.b and said.first) and now() - from < 40 do sleep(0.01) end
    assert(said.b and said.first)
    a:close() b:close() client:close()
]]

local SERVER = [[
    location /locks { content_by_lua_block {
        local args = ngx.req.get_uri_args()
        assert(client:getLock(args.has):tryLock(5))
        ngx.sleep(0.3)
        local ok, err = client:getLock(args.wants):tryLock(30)
        ngx.print(ok and "got" or err.code .. " " .. #(err.chain or {}))
    } }
    location /using { content_by_lua_block {
        local args = ngx.req.get_uri_args()
        client:using(args.has, { wait = 5 }, function()
            ngx.sleep(0.3)
            local ok, err = client:using(args.wants, { wait = 30 }, function() end)
            ngx.print(ok and "got" or err.code .. " " .. #(err.chain or {}))
        end)
    } }
    location /threads { content_by_lua_block {
        local args = ngx.req.get_uri_args()
        local l = client:getLock(args.has)
        local thread = ngx.thread.spawn(function()
            assert(l:tryLock(5))
            ngx.sleep(6)
            assert(l:unlock())
        end)
        ngx.sleep(0.3)
        local ok, err = client:getLock(args.wants):tryLock(30)
        ngx.thread.wait(thread)
        ngx.print(ok and "got" or err.code .. " " .. #(err.chain or {}))
    } }
]]

describe("owners that block each other", function()
    local cluster

    setup(function() cluster = support.cluster(3) end)
    teardown(support.cleanup)
    before_each(function() cluster:flush() end)

    for name, loop in pairs(behaviour.loops) do
        it("are found in " .. name, function()
            local p = hosted.run(cluster, loop, WORK)
            assert.equal("ok\n", p:read_all(100))
            assert.equal(0, p:wait(5))
        end)
    end

    describe("in nginx", function()
        local ng

        before_each(function()
            ng = support.nginx { nodes = cluster, server = SERVER,
                options = 'lease = 1.5, deadlocks = "end"' }
        end)
        after_each(function()
            assert.equal(0, ng:stop "QUIT")
        end)

        -- What two requests answer that want each other's lock.
        local function both(one, two)
            local first = ng:begin(one .. "?has=a&wants=b")
            local second = ng:begin(two .. "?has=b&wants=a")
            local said = { (first:finish(60)), (second:finish(60)) }
            table.sort(said)
            return said
        end

        for _, path in ipairs { "/locks", "/using" } do
            it("are found, and the log names them: " .. path, function()
                assert.same({ "deadlock 2", "got" }, both(path, path))
                local log = ng:log()
                assert.matches("a deadlock: '[ab]' is held by", log)
            end)
        end

        it("are none where another light thread has what it lets go", function()
            assert.same({ "got", "got" }, both("/threads", "/locks"))
        end)
    end)
end)
