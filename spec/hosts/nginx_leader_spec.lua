-- Timers of nginx that wait, lead or work while their worker exits; the page of a leader.
local pages = require "spec.support.pages"
local support = require "spec.support"
local sys = require "spec.support.sys"

-- In each worker: every call that may wait without end, of names that another process has. What a
-- call said, and how many seconds after the worker heard of its end.
local WAITERS = [[
    local function note(what, ok, err)
        ngx.update_time()
        local late = ngx.shared.shared:get("quit" .. ngx.worker.pid())
        ngx.shared.shared:set(ngx.worker.pid() .. what, tostring(ok or err.code)
            .. (late and ngx.now() - late < 10 and " at once" or " late"))
    end
    local function waits(what, fn, after)
        ngx.timer.at(after or 0, function()
            ngx.shared.shared:incr("began", 1, 0)
            note(what, fn())
        end)
    end
    ngx.timer.at(3600, function()
        ngx.update_time()
        ngx.shared.shared:set("quit" .. ngx.worker.pid(), ngx.now())
    end)
    waits("lock", function() return client:getLock("taken"):lock() end)
    waits("second", function() return client:getLock("taken"):tryLock(600) end)
    waits("using", function() return client:using("taken", { wait = 600 }, print) end)
    waits("fair", function() return client:getFairLock("fair"):lock() end)
    waits("write", function() return client:getReadWriteLock("rw"):writeLock():lock() end)
    waits("permit", function() return client:getSemaphore("full", 1):acquire() end)
    waits("latch", function() return client:getCountDownLatch("latch"):await() end)
    waits("another", function() return client:getCountDownLatch("latch"):await() end, 0.05)
    waits("campaign", function()
        return client:getElection("chief", { id = "worker" }):campaign()
    end)
    waits("observe", function()
        return client:getElection("chief", { id = "worker" }):observe(function() end):get()
    end)
    waits("get", function() return client:getLock("taken"):lockAsync():get() end)
    waits("thread", function()
        local _, ok, err = ngx.thread.wait(ngx.thread.spawn(function()
            return client:getLock("taken"):lock()
        end))
        return ok, err
    end)
]]
local N = 12

describe("timers of a worker that exits", function()
    local cluster = support.shared_cluster(3)
    local ng

    local function said(key)
        return ng:get("/said?key=" .. key)
    end

    local function start(init_worker, more)
        ng = support.nginx { nodes = cluster, workers = 2, init_worker = init_worker,
            shutdown = "60s", options = "lease = 3",
            server = [[ location /said { content_by_lua_block {
                ngx.print(ngx.shared.shared:get(ngx.var.arg_key)) } } ]] .. (more or "") }
    end

    local function only(n)
        support.eventually(function() return #ng:workers() == n end, 10, "the old workers' end")
    end

    it("wait no longer: every call ends with `closed`, and keeps no place", function()
        local other = support.client(cluster)
        for _, lock in ipairs { other:getLock "taken", other:getFairLock "fair",
            other:getReadWriteLock("rw"):readLock() } do
            assert(lock:tryLock(1))
        end
        local permit = assert(other:getSemaphore("full", 1):acquire())
        assert(other:getCountDownLatch("latch"):trySetCount(1))
        local chief = other:getElection("chief", { id = "other" })
        assert(chief:campaign(1))
        start(WAITERS)
        for round = 1, 10 do
            support.eventually(function() return said "began" == tostring(2 * round * N) end, 10)
            local old = ng:workers()
            ng:reload()
            only(2)
            for _, pid in ipairs(old) do
                for what in WAITERS:gmatch 'waits%("([^"]+)"' do
                    assert.equal(what .. ": closed at once",
                        what .. ": " .. said(pid .. what))
                end
            end
        end
        ng:ends "QUIT"
        permit:release()
        chief:resign()
        other:releaseAll()
        local third = support.client(cluster)        -- nobody is before it
        for _, lock in ipairs { third:getLock "taken", third:getFairLock "fair",
            third:getReadWriteLock("rw"):readLock() } do
            assert(lock:tryLock(0))
        end
        assert(third:getSemaphore("full", 1):tryAcquire())
        assert(third:getElection("chief", { id = "third" }):campaign(0))
        third:close()
        other:close()
    end)

    it("keep what they hold, renewed, while their code runs, which hears of the exit", function()
        start([[ ngx.timer.at(0, function()
            local shared, l = ngx.shared.shared, client:getLock "job"
            if ngx.worker.id() == 0 and shared:add("begun", true) and l:lock() then
                assert(l:onEnding(0.5, function() shared:set("told", ngx.get_phase()) end))
                repeat ngx.sleep(0.01) until shared:get "finish"
                shared:set("end", tostring(l:isValid()) .. " " .. tostring(l:unlock()))
            end
        end) ]], [[ location /finish { content_by_lua_block {
            ngx.shared.shared:set("finish", true) } } ]])
        support.eventually(function() return cluster:keys() > 0 end)
        ng:reload()
        support.eventually(function() return said "told" == "timer" end)
        only(3)
        local other = support.client(cluster)
        assert.same("held", select(2, other:getLock("job"):tryLock(4)).code)
        ng:get "/finish"
        assert(other:getLock("job"):tryLock(10))
        support.eventually(function() return said "end" == "true true" end)
        only(2)
        ng:ends "QUIT"
        other:close()
    end)
end)

describe("the page of a leader in nginx", function()
    it("has a configuration that leads and works once, through reloads, kills and hangs", function()
        local cluster, dir = support.cluster(3, { unnamed = true }), support.tmpdir()
        local conf, made = assert(pages.snippets("examples/leader/README.md", "nginx")[1]), {}
        assert(support.sh("chmod 777 " .. dir))      -- workers may be somebody else's
        local function write(what, file)
            return ([[ local file = io.open("%s/%s", "a")
                file:write(%s, "\n") file:close() ]]):format(dir, file, what)
        end
        local changes = {
            { "nodes = %b{}", ("lease = 5, timeout = 2, connect_timeout = 5, nodes = '%s'")
                :format(table.concat(cluster:uris(), " ")) },
            { "%-%- one step[^\n]*", write([[("%.0f %d"):format(term, ngx.worker.pid())]], "led") },
            { "%-%- the job:[^\n]*", write([[ngx.worker.pid()]], "ran") },
            { 'os.date "%%H" ~= "03"', "false" },
            { "timer.every%(60", "timer.every(0.1" },
            -- Where a minority has voted for others, it is for the frozen server to say.
            { '"closed" then%s+ngx.log%(ngx.ERR', '"closed" then ngx.log(ngx.NOTICE' },
        }
        for _, change in ipairs(changes) do
            local n
            conf, n = conf:gsub(change[1], (change[2]:gsub("%%", "%%%%")))
            assert.equal(1, n, change[1])
        end
        -- Blocks that the nginx of the specs has as well.
        local http = conf:match "http (%b{})"
        for _, block in ipairs { "init_by_lua_block", "init_worker_by_lua_block", "server" } do
            http = http:gsub(block .. " (%b{})", function(text)
                made[block] = text:match "^{(.*)}$"
                return ""
            end)
        end
        local server = made.server:gsub("listen [^;]*;", "")
        local ngs = {}
        for i = 1, 2 do
            ngs[i] = support.nginx { nodes = cluster, workers = 2, http = http:match "^{(.*)}$",
                init = made.init_by_lua_block, init_worker = made.init_worker_by_lua_block,
                server = server }
        end
        -- Each term has one leader, and terms only grow: the last one, and its worker.
        local steps = 0
        local function led()
            local last, pids = 0, {}
            steps = 0
            for term, pid in (sys.read_file(dir .. "/led") or ""):gmatch "(%d+) (%d+)" do
                term, pid = tonumber(term), tonumber(pid)
                assert.is_true(term >= last, term .. " after " .. last)
                assert.equal(pid, pids[term] or pid, "two leaders of term " .. term)
                last, pids[term], steps = term, pid, steps + 1
            end
            return last, pids[last]
        end
        local function goes_on(what)
            local before = led()
            what()
            support.eventually(function() return led() > before end, 10, "a new leader")
        end
        local function nginx_of(pid)
            for i = 1, 2 do
                for _, worker in ipairs(ngs[i]:workers()) do
                    if worker == pid then
                        return ngs[i]
                    end
                end
            end
        end
        local function reload()
            nginx_of(select(2, led())):reload()
        end
        support.eventually(function() return led() > 0 end)
        for _ = 1, 10 do
            goes_on(reload)
        end
        goes_on(function() assert(support.sh("kill -9 " .. select(2, led()))) end)
        cluster[1]:freeze()
        local before = steps
        support.eventually(function() return led() > 0 and steps > before + 20 end, 30)
        goes_on(reload)
        for i = 1, 2 do
            support.eventually(function() return ngs[i]:get "/healthz" == "ok\n" end)
            assert.matches("servers vote", ngs[i]:get "/locks")
        end
        support.eventually(function()
            local text = ngs[1]:get "/metrics" .. ngs[2]:get "/metrics"
            return tonumber(text:match "redlock_leader_term{[^\n]*} (%d+)") == led()
        end)
        cluster[1]:thaw()
        assert.matches("^%d+\n$", sys.read_file(dir .. "/ran"))
        for i = 1, 2 do
            ngs[i]:ends("QUIT", "exited on signal 9")
        end
    end)
end)
