-- Load, reloads and servers that are killed, all at once, while a recorder of entries and
-- exits watches: `SOAK=600 busted spec/hosts/nginx_soak_spec.lua` for ten minutes.
-- Nightly, all of it: 20 s of load; nginx_life and nginx_death have each fault alone
local support = require "spec.support"

local SECONDS = tonumber(os.getenv "SOAK") or 20
local LEASE = 1.5

-- Whoever is inside says so, and until when, in memory that the workers share, and takes it
-- back when he leaves; whoever was paused beyond his lease does not count.
local SERVER = [[
    location /enter { content_by_lua_block {
        local l = client:getLock("soak" .. math.random(3))
        local ok, err = l:tryLock(20, 1.4)
        if not ok then
            ngx.status = err.code == "no_quorum" and 503 or 500
            if ngx.status == 500 then
                ngx.log(ngx.ERR, tostring(err))
            end
            return ngx.print(err.code)
        end
        local journal = "inside:" .. l:getName()
        local shared = ngx.shared.shared
        ngx.update_time()
        local before, left = shared:get(journal), l:remaining()
        local me = ("%d:%d:%.3f until %.3f"):format(ngx.worker.pid(), ngx.var.connection,
            ngx.now(), ngx.now() + left)
        if before and left > 0 and tonumber(before:match "until (.*)") > ngx.now() then
            ngx.log(ngx.ERR, "two inside ", l:getName(), ": ", before, " and ", me)
        end
        shared:set(journal, me)
        ngx.sleep(0.002)
        local now = shared:get(journal)
        if now ~= me and now and l:isValid() then
            ngx.log(ngx.ERR, "somebody else came in: ", now, ", beside ", me)
        end
        if now == me then
            shared:delete(journal)
        end
        left = l:remaining()
        ok, err = l:unlock()
        if not ok and err.code ~= "unknown" and left > 0.1 then
            ngx.log(ngx.ERR, "unlock, ", left, " s before the end: ", tostring(err))
        end
        ngx.print "ok"
    } }
]]

describe("nginx under load, reloads and kills", function()
    teardown(support.cleanup)

    it("fails no request that had a quorum, and grows nowhere", function()
        -- Quarantines must be over before the next server is killed.
        local cluster = support.cluster(5, { new = true }):admit(LEASE)
        local ng = support.nginx { nodes = cluster, server = SERVER, workers = 2,
            options = ("timeout = 1, lease = %g, max_lease = %g"):format(LEASE, LEASE),
            shutdown = "25s" }
        local wrk = support.spawn { "wrk", "-t1", "-c24", "-d" .. SECONDS .. "s", "--timeout",
            "40s", ("http://127.0.0.1:%d/enter"):format(ng.port), stdout = "pipe",
            stderr = "stdout" }
        local finish = support.now() + SECONDS
        local victim, reload_at, kill_at = 0, support.now() + 5, support.now() + 3
        while support.now() < finish do
            support.sleep(0.1)
            if support.now() >= reload_at then
                reload_at = support.now() + 5
                ng:reload()
            end
            if support.now() >= kill_at then
                kill_at = support.now() + 10
                victim = victim % 5 + 1
                cluster[victim]:kill()
                support.sleep(LEASE)     -- nothing guards its return before that
                cluster[victim]:start()
            end
        end
        local text = wrk:read_all(60)
        assert.equal(0, wrk:wait(5), text)
        assert.is_nil(text:find "Non%-2xx", text)
        assert.is_true(tonumber(text:match "(%d+) requests in") > 10 * SECONDS, text)
        support.eventually(function() return #ng:workers() == 2 end, 40, "old workers to end")
        for _, pid in ipairs(ng:workers()) do
            assert.is_true(support.fds(pid) < 60)
            assert.is_true(support.threads(pid) <= 2)
            assert.is_true(support.rss(pid) < 60000)
        end
        ng:ends "QUIT"
        cluster:await_free(5)
    end)
end)
