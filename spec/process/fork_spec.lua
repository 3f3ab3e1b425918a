-- A fork in the middle of everything: the parent goes on as if nothing had happened, and
-- the child has nothing of it.
local support = require "spec.support"

describe("fork()", function()
    it("leaves the parent's watchdog alone, and the child can have its own", function()
        local cluster = support.cluster(5)
        local c = support.lua(([[
            local ffi = require "ffi"
            local support = require "spec.support"
            ffi.cdef "int fork(void); int waitpid(int, int *, int);"
            local client = support.warm_client(%s, { lease = 2.4, timeout = 2 })

            local function burn(seconds, fn)
                local finish, n = support.now() + seconds, 0
                while support.now() < finish do
                    for i = 1, 1000 do n = n + i %% 7 end
                    if fn then fn() end
                end
            end

            -- What the child of the fork does.
            local function child(kept, fixed)
                assert(support.threads() == 1)
                for _, l in ipairs { kept, fixed } do
                    assert(not l:isValid() and l:remaining() == 0)
                    local ok, err = l:unlock()
                    assert(not ok and err.code == "not_held", tostring(err))
                end
                local ok, err = kept:tryLock()
                assert(not ok and err.code == "held", tostring(err))
                local mine = client:getLock "child's"
                assert(mine:tryLock(5))
                burn(3)
                assert(mine:isValid() and mine:remaining() > 0.1)
                assert(mine:unlock())
                assert(client:getLock("left"):tryLock(5))      -- for the exit
            end

            local kept, fixed = client:getLock "kept", client:getLock "fixed"
            local lost
            assert(kept:tryLock())
            kept:onLost(function(_, why) lost = why end)
            local turns = 0
            local function turn()
                turns = turns + 1
                local l = client:getLock("turn" .. turns %% 3)
                assert(l:tryLock(0, 10))
                assert(kept:isValid())
                assert(l:unlock())
            end
            burn(0.3, turn)
            assert(fixed:tryLock(0, 20))
            local before = client:stats()
            io.stdout:flush()
            local pid = ffi.C.fork()
            if pid == 0 then
                local ok, err = xpcall(child, debug.traceback, kept, fixed)
                if not ok then print(err) end
                io.stdout:flush()
                os.exit(ok and 0 or 1)
            end
            local status, since = ffi.new "int[1]", turns
            burn(1.5, turn)              -- beside the child
            burn(1.5)                    -- and without a call
            ffi.C.waitpid(pid, status, 0)
            print(status[0], kept:isValid(), fixed:isValid(), lost)
            local after, healthy, requests = client:stats(), 0, 0
            for i, node in ipairs(after.nodes) do
                local was = before.nodes[i]
                if node.ready and node.connects == was.connects and node.errors == was.errors
                    and node.disconnects == was.disconnects then
                    healthy = healthy + 1
                end
                requests = requests + node.requests - was.requests
            end
            -- Two for each turn, and some renewals, to a majority: who is behind is spared.
            print(healthy, requests >= 3 * (2 * (turns - since) + 3), turns - since > 10,
                after.lost, after.failed)
            print(kept:unlock(), fixed:unlock())
        ]]):format(cluster:text()), { stderr = "stdout" })
        assert.equal("0\ttrue\ttrue\tnil", c:read_line(20))
        assert.equal("5\ttrue\ttrue\t0\t0", c:read_line(5))
        assert.equal("true\ttrue", c:read_line(5))
        assert.equal(0, c:wait(5))
        cluster:each(function(server)
            local stats = server:call("INFO", "stats")
            -- Commands that came in pieces from two processes would be errors.
            assert.equal("0", stats:match "total_error_replies:(%d+)" or "0")
            local text = assert(io.open(server.dir .. "/log")):read "*a"
            assert.is_nil(text:lower():find("protocol error", 1, true))
        end)
        cluster:await_free()
    end)
end)
