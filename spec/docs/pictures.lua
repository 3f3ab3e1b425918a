-- The page of redlock.status as a person sees it, after minutes of traffic: a picture for the docs.
--
--     luajit spec/docs/pictures.lua FILE [SECONDS]     make pictures
local browsers = require "spec.support.browser"
local support = require "spec.support"

local INIT = [[
    metrics = require("redlock.metrics").new { dict = "numbers" }
    status = require("redlock.status").new { metrics = metrics }
    locks = redlock.new { nodes = nodes, label = "shop-1", timeout = 1, metrics = metrics }
]]
local SERVER = [[
    location = /locks { content_by_lua_block { status:serve() } }
    location = /hold { content_by_lua_block {
        local job = "job " .. (ngx.var.arg_job or "of stock")
        local lock = locks:getLock(ngx.var.arg_name, { label = job })
        assert(lock:tryLock(60, tonumber(ngx.var.arg_lease)))
        ngx.print "ok"
        ngx.flush(true)
        ngx.sleep(600)
    } }
    location = /work { content_by_lua_block {
        for i = 1, tonumber(ngx.var.arg_n) do
            locks:using("invoice:" .. math.random(8), function() ngx.sleep(0.02) end)
        end
        ngx.print "ok"
    } }
]]
local HELD = { "nightly:report", "deploy:blue", "cache:prices" }
local WIDTH = 1000

local function take(url, file)
    local browser = assert(browsers.new(), "no chromium is installed (CHROMIUM=path)")
    browser:scheme "light"
    browser:resize(WIDTH)
    browser:open(url)
    local height = browser:eval "document.documentElement.scrollHeight"
    local shot = browser:call("Page.captureScreenshot", { captureBeyondViewport = true,
        clip = { x = 0, y = 0, width = WIDTH, height = height, scale = 1 } })
    local pipe = assert(io.popen("base64 -d > '" .. file .. "'", "w"))
    pipe:write(shot.data)
    pipe:close()
    browser:close()
    print(file)
end

local function main(file, seconds)
    local cluster = support.cluster(5, { unnamed = true })
    local ng = support.nginx { nodes = cluster, workers = 2, server = SERVER, init = INIT,
        init_worker = "assert(metrics:start())", http = "lua_shared_dict numbers 4m;" }
    local requests = {}
    for i, name in ipairs(HELD) do
        requests[i] = ng:begin("/hold?job=" .. i .. "&name=" .. name)
    end
    local until_s, n = support.now() + seconds, 0
    while support.now() < until_s do
        n = n + 1
        local work = {}
        for i = 1, 1 + n % 4 do
            work[i] = ng:begin("/work?n=" .. 10 * (1 + n % 3))
        end
        if n == 3 then
            requests[#requests + 1] = ng:begin "/hold?name=import:stock&lease=0.2"
        end
        for _, request in ipairs(work) do
            request:finish()
        end
    end
    -- What it waits for, another host holds.
    local other = support.client(cluster, { label = "shop-2", cluster = false })
    assert(other:getLock("import:orders"):lock())
    requests[#requests + 1] = ng:begin "/hold?name=import:orders"
    support.eventually(function() return ng:get "/locks":find "shop%-2" end, 20)
    cluster[4]:kill()
    support.eventually(function() return ng:get "/locks":find "4 of 5" end, 20)
    take(("http://127.0.0.1:%d/locks"):format(ng.port), file)
    for _, request in ipairs(requests) do
        request:abort()
    end
    ng:stop()
    support.cleanup()
end

main(arg[1], tonumber(arg[2] or 180))
