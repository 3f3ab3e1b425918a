-- The examples do what they say.
local support = require "spec.support"

describe("the examples", function()
    local function get(port, path)
        local p = support.spawn { "curl", "-s", "-m", "20", "-w", " %{http_code}",
            ("http://127.0.0.1:%d%s"):format(port, path), stdout = "pipe" }
        local text = p:read_all(25)
        p:wait(5)
        return text
    end

    it("for nginx: pages, and metrics of them", function()
        local port = support.free_port()
        local p = support.spawn { "luajit", "examples/nginx/run.lua", port, stdin = "null",
            stdout = "pipe", stderr = "stdout", env = support.lua_env() }
        support.eventually(function()
            return get(port, "/counter"):match "^(%d+)\n 200$"
        end, 20, "nginx")
        local first = tonumber((get(port, "/counter"):match "^%d+"))
        local requests = {}
        for i = 1, 10 do
            requests[i] = support.spawn { "curl", "-s", "-m", "20",
                ("http://127.0.0.1:%d/counter"):format(port), stdout = "null" }
        end
        for i = 1, 10 do
            assert.equal(0, requests[i]:wait(20))
        end
        assert.equal(("%d\n 200"):format(first + 11), get(port, "/counter"))
        local readers, began = {}, support.now()     -- a stampede: the page is made once in 2 s
        for i = 1, 20 do
            readers[i] = support.spawn { "curl", "-s", "-m", "20",
                ("http://127.0.0.1:%d/news"):format(port), stdout = "pipe" }
        end
        for i = 1, 20 do
            local n = tonumber(readers[i]:read_all(20):match "^news (%d+) of ")
            assert.is_true(n <= 1 + (support.now() - began) / 2, n)
        end
        assert.equal("inside\n 200", get(port, "/phases"))
        local metrics = get(port, "/metrics")
        assert.matches('\nredlock_acquired_total{worker="%d"} %d+\n', metrics)
        assert.matches('\nredlock_node_up{worker="%d",node="redis://127.0.0.1:%d+"} 1\n',
            metrics)
        assert.equal("ok\n 200", get(port, "/healthz"))
        p:kill "INT"                     -- Ctrl-C: all that it started ends with it
        local log = p:read_all(20)
        assert.equal(0, p:wait(20), log)
        assert.is_nil(log:find "%[error%]", log)
        assert.is_nil(log:find "%[alert%]", log)
    end)

    -- make demo
    it("of two processes, one lock, five servers, three of them killed", function()
        local p = support.spawn { "luajit", "examples/demo.lua", stdin = "null", stdout = "pipe",
            stderr = "stdout", env = support.lua_env() }
        local text = p:read_all(400)
        assert.equal(0, p:wait(60), text)
        local held = {}
        for a, b in text:gmatch "A held it (%d+) times, B (%d+) times, never both at once" do
            held[#held + 1], held[#held + 2] = tonumber(a), tonumber(b)
        end
        assert.equal(4, #held, text)
        for _, n in ipairs(held) do
            assert.is_true(n > 0, text)
        end
        assert.equal(3, select(2, text:gsub("  refused: ", "")), text)
        assert.matches("\ndemo: the lock worked throughout; everything is cleaned up\n$", text)
    end)

    it("of a loop of one's own", function()
        local cluster = support.cluster(3, { unnamed = true })
        local p = support.spawn { "luajit", "examples/own_loop.lua", cluster[1].uri,
            cluster[2].uri, cluster[3].uri, stdout = "pipe", stderr = "stdout",
            env = support.lua_env() }
        local text = p:read_all(20)
        assert.equal(0, p:wait(5), text)
        local _, lines = text:gsub("%d+ has it\n", "")
        assert.equal(10, lines)
        cluster:await_free()
    end)
end)
