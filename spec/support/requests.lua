-- What requests of nginx do in specs of who owns what: with the lock "x" of the global client.
-- Loaded there, in init_by_lua.
local _M = {}

local function inside(n)
    return ngx.shared.shared:incr("inside", n, 0)
end

-- How many were inside at once, as far as it saw.
function _M.enter()
    local most
    local ok, err = client:using("x", { wait = 20 }, function()
        most = inside(1)
        ngx.sleep(0.002)
        inside(-1)
    end)
    return ok and most or err.code
end

-- What fn answers in a light thread.
function _M.in_thread(fn, ...)
    return select(2, ngx.thread.wait(ngx.thread.spawn(fn, ...)))
end

-- What using and getLock answer, and whether that came long before the wait was over.
function _M.try_using(wait)
    ngx.update_time()
    local began = ngx.now()
    local ok, err = client:using("x", { wait = wait or 20 }, function(l)
        return l:getHoldCount()
    end)
    ngx.update_time()
    return ok and "in " .. err or err.code, ngx.now() - began < 10
end

function _M.try_lock(wait)
    ngx.update_time()
    local l, began = client:getLock "x", ngx.now()
    local ok, err = l:tryLock(wait or 20)
    ngx.update_time()
    local said = ok and "in " .. l:getHoldCount() or err.code
    if ok then
        l:unlock()
    end
    return said, ngx.now() - began < 10
end

function _M.lock_x()
    assert(client:getLock("x"):lock())
end

local kept = {}

-- Refers to a lock for ever, and lets its hold do so.
function _M.keep(l)
    kept[#kept + 1] = l
    l:onLost(function() return l end)
    l:onEnding(0.1, function() return l end)
end

-- A line of values.
function _M.say(...)
    local list = { ... }
    for i = 1, select("#", ...) do
        list[i] = tostring(list[i])
    end
    ngx.say(table.concat(list, " "))
end

-- Waits until /go?on=1 was asked for; /go tells whether somebody does.
function _M.stay()
    ngx.shared.shared:set("goes_on", true)
    repeat
        ngx.sleep(0.01)
    until not ngx.shared.shared:get "goes_on"
end

local jobs = {}

-- Runs it in a timer that does many jobs at once and one after the other, as that of
-- lua-resty-timer-ng does.
function _M.run(job)
    jobs[#jobs + 1] = job
end

function _M.run_jobs(premature)
    local function work()
        while not ngx.worker.exiting() do
            local job = table.remove(jobs, 1)
            if job then
                require "table.clear"(ngx.ctx)
                job()
            else
                ngx.sleep(0.002)
            end
        end
    end
    if not premature then
        for _ = 1, 8 do
            ngx.thread.spawn(work)
        end
    end
end

-- These, as globals.
_M.INIT = [[
    for name, value in pairs(require "spec.support.requests") do
        _G[name] = value
    end
]]

_M.SERVER = [[
    location = /lock { content_by_lua_block { say(try_lock()) } }
    location = /using { content_by_lua_block { say(try_using()) } }
    location = /go { content_by_lua_block {
        ngx.say(tostring(ngx.shared.shared:get "goes_on"))
        if ngx.var.arg_on then
            ngx.shared.shared:delete "goes_on"
        end
    } }
]]

return _M
