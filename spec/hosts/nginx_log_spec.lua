-- What the error log of nginx is told of servers, where no on_event function listens.
local support = require "spec.support"

local SERVER = [[
    location /other { content_by_lua_block {
        other = other or redlock.new { nodes = nodes, cluster = "spec",
            timeout = 2, connect_timeout = 5, prefix = client.options.prefix }
        local l = other:getLock "y"
        local ok, err = l:tryLock(0.2)
        if ok then
            l:unlock()
        end
        ngx.print(ok and other.core == client.core and "ok" or err and err.code or "not shared")
    } }
]]

describe("in nginx the log is told", function()
    local cluster, ng

    before_each(function()
        cluster = support.cluster(3)
    end)

    after_each(function() ng:stop "TERM" end)

    local function start(options)
        ng = support.nginx { nodes = cluster, server = SERVER, options = options }
        for _ = 1, 5 do
            assert.equal("ok", ng:get "/once?wait=0.2")
        end
    end

    -- What follows "redlock: " in the lines at [warn].
    local function lines()
        local list = {}
        for line in ng:log():gmatch "[^\n]+" do
            local text = line:match "%[warn%].* redlock: (.*)$"
            if text then
                list[#list + 1] = (text:gsub(", client: .*$", ""):gsub(", context: .*$", ""))
            end
        end
        return list
    end

    -- The next line, when requests have been made for a while; and that there is one only.
    local function next_line(before, pattern)
        local list
        support.eventually(function()
            ng:get "/once?wait=0.2"
            list = lines()
            return #list > before
        end, 15, pattern)
        for _ = 1, 10 do
            ng:get "/once?wait=0.2"
            ng:get "/other"
            support.sleep(0.05)
        end
        assert.equal(before + 1, #lines(), table.concat(lines(), "\n"))
        assert.matches(pattern, list[before + 1])
        return before + 1
    end

    it("nothing while all is well", function()
        start()
        assert.equal("ok", ng:get "/other")
        assert.same({}, lines())
    end)

    it("that one goes, and is back, in a line each", function()
        start()
        assert.equal("ok", ng:get "/other")
        local node = ("^redis://127.0.0.1:%d "):format(cluster[3].port)
        cluster[3]:kill()
        local n = next_line(0, node .. "is down: refused %(.+%)$")
        local worker = ng:workers()[1]       -- comes back by itself: not before the marker is there
        assert(support.sh("kill -STOP " .. worker))
        cluster[3]:start():admit()
        assert(support.sh("kill -CONT " .. worker))
        n = next_line(n, node .. "is there again$")
        cluster[3]:call "FLUSHALL"
        next_line(n, node .. "has no vote: guarded %(it lost its memory .*; it votes in %d+ s")
    end)

    it("that one is down, or refused, from the start", function()
        cluster[3]:call("REPLICAOF", "127.0.0.1", support.server().port)
        start()
        local n = next_line(0, "has no vote: readonly %(a replica of 127.0.0.1:%d+; only masters")
        ng:stop "TERM"
        cluster[3]:kill()
        start()
        next_line(n - 1, "^redis://127.0.0.1:%d+ is down: refused %(connect: Connection refused%)$")
    end)

    it("of a clock that was stepped", function()
        cluster = support.cluster(3, { clocks = true })
        start()
        local heard = cluster[2].late and cluster[3] or cluster[2]     -- before it is stepped
        heard.clock:set(40)
        support.eventually(function()
            ng:get "/once?wait=0.2"
            return #lines() >= 2
        end, 15)
        local text = table.concat(lines(), "\n")
        assert.matches(":%d+: its clock was stepped by %+[34]%d%.%d+ s %(.-%); it votes in", text)
        assert.matches("its clock and ours differ by %+[34]%d%.%d+ s", text)
    end)

    it("of what is dangerous, with the remedy", function()
        cluster[4] = support.server():admit()
        start()
        next_line(0, "^all servers: 4 servers tolerate no more failures than 3; use an odd number$")
    end)

    for option, what in pairs { ["false"] = "nobody", ["function() end"] = "a function" } do
        it("nothing when on_event is " .. what, function()
            start("on_event = " .. option)
            cluster[3]:kill()
            for _ = 1, 20 do
                ng:get "/once?wait=0.2"
                support.sleep(0.05)
            end
            assert.same({}, lines())
            assert.is_nil(ng:log():find "%[warn%]")
        end)
    end
end)
