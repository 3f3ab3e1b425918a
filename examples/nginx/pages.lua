-- The pages of nginx.conf.
local locks = require "locks"

local cache = ngx.shared.cache

local _M = {}

--- Answers 503 unless it gets the lock within a second.
local function lock_or_503(name)
    local lock = locks:getLock(name)
    local ok, err = lock:tryLock(1)
    if not ok then
        if err.code ~= "held" then
            ngx.log(ngx.WARN, err)     -- what each server answered
        end
        return ngx.exit(503)
    end
    return lock
end

--- Reads, adds and writes, with a pause in which others could do the same.
function _M.counter()
    local lock = lock_or_503 "counter"
    local n = cache:get "counter" or 0
    ngx.sleep(0.005)
    lock:check()                       -- raises if the lock is lost: nothing is written
    cache:set("counter", n + 1)
    lock:unlock()
    ngx.say(n + 1)
end

--- An expensive page, which counts how often it was made.
local function make_news()
    ngx.sleep(0.2)
    return ("news %d of %s"):format(cache:incr("made", 1, 0), ngx.localtime())
end

--- From the cache of this host. When the page is old, one request makes it again, and the others
-- get the old one. Hosts take turns. A request waits only if there is no old page.
function _M.news()
    local text, _, stale = cache:get_stale "news"
    if text and not stale then
        return ngx.say(text)
    end
    local lock = locks:getLock "news"
    local ok, err = lock:tryLock(text and 0 or 5, 10)
    if not ok then
        if err.code ~= "held" then
            ngx.log(ngx.WARN, err)
        end
        return text and ngx.say(text) or ngx.exit(503)
    end
    local fresh, _, old = cache:get_stale "news"      -- made meanwhile?
    if fresh and not old then
        text = fresh
    else
        text = make_news()
        cache:set("news", text, 2)
    end
    ok, err = lock:unlock()
    if not ok then                     -- another request may have made it as well
        ngx.log(ngx.WARN, err)
    end
    ngx.say(text)
end

--- release_on_abort: releases the lock at once when the client disconnects. Without this, the
-- collector finds the lock some seconds later, and it is no longer renewed.
local function release_on_abort(lock)
    local ok, err = ngx.on_abort(function()
        lock:unlock()
        ngx.exit(499)
    end)
    if not ok then
        ngx.log(ngx.ERR, "on_abort: ", err, " (is lua_check_client_abort on?)")
    end
end

--- A long job for one client at a time.
function _M.report()
    local lock = lock_or_503 "report"
    release_on_abort(lock)
    ngx.sleep(10)
    lock:unlock()
    ngx.say "done"
end

function _M.enter()
    lock_or_503 "phases"
end

--- Nothing can wait in the log phase: the release is sent without waiting for the answer.
function _M.leave()
    locks:getLock("phases"):unlock()
end

--- For a load balancer, which may ask often. The error names servers: keep it private.
function _M.healthz()
    local healthy, err = locks:health()
    ngx.status = healthy and 200 or 503
    ngx.say(healthy and "ok" or tostring(err))
end

local function line(name, labels, value)
    ngx.print("redlock_", name, labels, " ", value, "\n")
end

--- client:stats() as text for Prometheus; the label names this worker.
function _M.metrics()
    ngx.header["Content-Type"] = "text/plain; version=0.0.4"
    local stats = locks:stats()
    local worker = ('worker="%d"'):format(ngx.worker.id())
    for _, name in ipairs { "acquired", "contended", "failed", "released", "handed_over",
        "lost", "overloaded" } do
        ngx.print("# TYPE redlock_", name, "_total counter\n")
        line(name .. "_total", "{" .. worker .. "}", stats[name])
    end
    ngx.print "# TYPE redlock_waiting gauge\n"
    line("waiting", "{" .. worker .. "}", stats.waiting)
    for _, name in ipairs { "requests", "errors", "timeouts", "disconnects" } do
        ngx.print("# TYPE redlock_node_", name, "_total counter\n")
        for _, node in ipairs(stats.nodes) do
            line("node_" .. name .. "_total", ('{%s,node="%s"}'):format(worker, node.node),
                node[name])
        end
    end
    ngx.print "# TYPE redlock_node_up gauge\n"
    for _, node in ipairs(stats.nodes) do
        line("node_up", ('{%s,node="%s"}'):format(worker, node.node), node.ready and 1 or 0)
    end
end

return _M
