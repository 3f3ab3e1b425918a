-- redlock.status: what a person sees of it in a browser, and what programs get.
local browsers = require "spec.support.browser"
local cjson = require "cjson"
local prometheus = require "spec.support.prometheus"
local support = require "spec.support"
local sys = require "spec.support.sys"

local HOSTILE = [[<img src=x onerror=document.title='hacked'>"'&]]

local INIT = [[
    metrics = require("redlock.metrics").new { dict = "numbers" }
    status = require("redlock.status").new { metrics = metrics }
    measured = redlock.new { nodes = nodes, cluster = "spec",
        timeout = 2, connect_timeout = 5, metrics = metrics }
]]
local SERVER = [[
    location = /status { content_by_lua_block { status:serve() } }
    location = /hold { content_by_lua_block {
        local name = ngx.unescape_uri(ngx.var.arg_name)
        local ok, err = measured:getLock(name, { owner = ngx.now() .. name })
            :tryLock(tonumber(ngx.var.arg_wait or 10), tonumber(ngx.var.arg_lease))
        ngx.say(ok and "ok" or tostring(err))
        ngx.flush(true)
        ngx.sleep(600)
    } }
    location = /lead { content_by_lua_block {
        ngx.say(measured:getElection("boss", { id = "web-1" }):campaign(10) and "ok")
        ngx.flush(true)
        ngx.sleep(600)
    } }
    location = /many { content_by_lua_block {
        local futures = {}
        for i = 1, ngx.var.arg_n do
            futures[i] = measured:getLock("many:" .. i, { owner = "many" }):tryLockAsync(30)
        end
        assert(redlock.wait_all(futures, 50))
        for i = 1, ngx.var.arg_n do
            assert(futures[i]:get())
        end
        for i = 1, 64 do
            metrics.meter:acquired("group" .. i .. ":x", 0)
            for _ = 1, 50 do
                metrics.meter:lost("group" .. i .. ":" .. ("x"):rep(80), "expired")
            end
        end
        ngx.print "ok"
    } }
    # The longest that the worker was at this without a turn for others, in processor time.
    location = /longest { content_by_lua_block {
        local least = math.huge
        for _ = 1, 10 do
            local real, began, most = ngx.sleep, 0, 0
            local function stop()
                most = math.max(most, os.clock() - began)
            end
            ngx.sleep = function(seconds)
                stop()
                real(seconds)
                began = os.clock()
            end
            began = os.clock()
            status[ngx.var.arg_how](status)
            stop()
            ngx.sleep = real
            least = math.min(least, most)
        end
        ngx.print(least * 1000)
    } }
]]

-- What of the page can be read badly: text below 14 px, or beyond the right edge, or of a
-- contrast below 4.5 with what is behind it.
local READING = [[(function () {
    function rgb(text) { return text.match(/[\d.]+/g).map(Number); }
    function light(c) {
        var l = c.slice(0, 3).map(function (v) {
            v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); });
        return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
    }
    function behind(e) {
        for (; e; e = e.parentElement) {
            var c = rgb(getComputedStyle(e).backgroundColor);
            if (c.length === 3 || c[3] === 1) { return c; }
        }
        return [255, 255, 255];
    }
    var bad = [], n = 0, width = document.documentElement.clientWidth;
    var walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        var e = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
        if (!text || e.closest("script, style, thead")) { continue; }
        var style = getComputedStyle(e), box = e.getBoundingClientRect();
        var a = light(rgb(style.color)), b = light(behind(e));
        var contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        n++;
        if (contrast < 4.5) { bad.push(text + ": contrast " + contrast.toFixed(2)); }
        if (parseFloat(style.fontSize) < 14) { bad.push(text + ": " + style.fontSize); }
        if (box.right > width + 0.5 || box.left < 0) { bad.push(text + ": at " + box.right); }
    }
    if (document.documentElement.scrollWidth > width) { bad.push("scrolls sideways"); }
    return JSON.stringify({ bad: bad, n: n });
})()]]

-- With a limit that a slow machine keeps.
local function eventually(fn)
    return support.eventually(fn, 60)
end

describe("the page of redlock.status", function()
    local cluster, ng, browser, url, requests, other

    local function start(path)
        requests[#requests + 1] = ng:begin(path)
    end

    local function json()
        local body, code = ng:get "/status?format=json"
        assert.equal(200, code)
        return cjson.decode(body)
    end

    setup(function()
        requests = {}
        cluster = support.cluster(3)
        ng = support.nginx { nodes = cluster, workers = 2, server = SERVER, init = INIT,
            init_worker = "assert(metrics:start())", http = "lua_shared_dict numbers 4m;" }
        url = ("http://127.0.0.1:%d/status"):format(ng.port)
        start("/hold?name=" .. HOSTILE:gsub("[^%w]", function(c)
            return ("%%%02x"):format(c:byte())
        end))
        start "/hold?name=printer"
        start "/lead"
        eventually(function() return json().held == 3 end)
        start "/hold?name=printer&wait=590"
        start "/hold?name=short&lease=0.05"
        other = support.warm_client(cluster, { label = "elsewhere 9" })
        assert(other:getLock("theirs", { owner = "other" }):lock())
        start "/hold?name=theirs&wait=590"
        eventually(function()
            local found = json()
            return #found.queues == 2 and #found.losses == 1 and found.queues[2].label ~= ""
        end)
        browser = browsers.new()
    end)
    teardown(function()
        if browser then
            browser:close()
        end
        for _, request in ipairs(requests) do
            request:abort()
        end
        other:close()
        ng:stop "TERM"              -- requests that sleep would keep it
    end)

    -- A test of what is seen, for machines that have something to see it with.
    local function seen(what, fn)
        it(what, function()
            if not browser then
                return pending "no chromium is installed (CHROMIUM=path)"
            end
            browser:scheme "light"
            browser:resize(1200)
            browser.errors, browser.requests = {}, {}
            browser:open(url)
            fn()
            assert.same({}, browser.errors)
        end)
    end

    local function text()
        return browser:eval "document.body.innerText"
    end

    seen("tells of servers, locks, who waits, and what was lost", function()
        assert.matches("all 3 servers vote", text())
        for _, server in ipairs(cluster) do
            assert.matches("redis://127%.0%.0%.1:" .. server.port, text())
        end
        local cells = cjson.decode(browser:eval [[JSON.stringify(
            [...document.querySelectorAll("section")].map(s => [s.getAttribute("aria-label"),
                [...s.querySelectorAll("tbody tr")].map(r => r.cells[0].textContent)]))]])
        local names = {}
        for _, section in ipairs(cells) do
            table.sort(section[2])
            names[section[1]] = table.concat(section[2], "; ")
        end
        assert.equal(HOSTILE .. "; boss; printer", names["Locks held by this host"])
        assert.matches("printer%s+lock.-%s[%w.-]+ %d+ nginx", text())
        assert.matches("boss%s+election.-%sweb%-1%s", text())
        assert.equal("printer; theirs", names["Waiting on this host"])
        assert.matches("printer%s+lock%s+1%s+%d+%s+[%w.-]+ %d+ nginx%s+%d", text())
        assert.matches("theirs%s+lock%s+1%s+%d+%s+elsewhere 9%s+%d", text())
        assert.matches("short", browser:eval "document.querySelector('main').innerText")
        assert.matches("expired", text())
        assert.matches("admitted", text())
        assert.is_true(browser:eval "document.querySelectorAll('polyline').length" == 2)
    end)

    seen("says at the axes of its chart how many locks, and when", function()
        local numbers, times = browser:eval "document.querySelector('.numbers').innerText",
            browser:eval "document.querySelector('.times').innerText"
        assert.matches("^1/s\n0.5\n0$", numbers)
        local minutes = {}
        for hour, minute in times:gmatch "(%d%d):(%d%d)" do
            minutes[#minutes + 1] = hour * 60 + minute
        end
        assert.is_true(#minutes >= 4 and #minutes <= 6, times)
        for i = 2, #minutes do
            assert.equal(2, (minutes[i] - minutes[i - 1]) % 1440)
        end
        -- The line of a time is where it stands.
        local apart = browser:eval [[(function () {
            var line = document.querySelectorAll(".chart .grid")[1].getBoundingClientRect();
            var text = document.querySelector(".times span").getBoundingClientRect();
            return Math.abs(line.x - (text.left + text.right) / 2);
        })()]]
        assert.is_true(apart < 2, apart)
    end)

    seen("shows names as text, whatever is in them", function()
        local host = sys.read_file "/proc/sys/kernel/hostname":gsub("\n", "")
        assert.equal("redlock on " .. host, browser:eval "document.title")
        assert.equal("redlock on " .. host, browser:eval "document.querySelector('h1').innerText")
        assert.equal(host, json().host)
        assert.equal(0, browser:eval "document.querySelectorAll('img').length")
        -- And would run no script of theirs, if it did not.
        local html = ng:get "/status"
        assert.is_nil(html:find("<img", 1, true))
        assert.equal("undefined", browser:eval [[new Promise(function (done) {
            var s = document.createElement("script");
            s.textContent = "window.foreign = 1";
            document.body.append(s);
            setTimeout(function () { done(typeof window.foreign); }, 50);
        })]])
        assert.matches("Content Security Policy", browser.errors[1])
        browser.errors = {}
    end)

    seen("asks for nothing from outside", function()
        local n = 0
        for _, request in ipairs(browser.requests) do
            assert.truthy(request:find(url, 1, true) == 1 or request:find "^data:", request)
            n = n + 1
        end
        assert.is_true(n > 0)
    end)

    for _, scheme in ipairs { "light", "dark" } do
        for _, width in ipairs { 375, 1200 } do
            seen(("can be read at %d px, %s"):format(width, scheme), function()
                browser:resize(width)
                browser:scheme(scheme)
                eventually(function()
                    return browser:eval("matchMedia('(prefers-color-scheme: " .. scheme
                        .. ")').matches && innerWidth == " .. width)
                end)
                local found = cjson.decode(browser:eval(READING))
                assert.same({}, found.bad)
                assert.is_true(found.n > 40)
            end)
        end
    end

    seen("is reached by keys, which show where they are", function()
        local stops = {}
        for i = 1, 3 do
            browser:press "Tab"
            stops[i] = browser:eval [[(function () {
                var e = document.activeElement, style = getComputedStyle(e);
                return (e.textContent || e.id) + " " + style.outlineStyle + " "
                    + style.outlineWidth;
            })()]]
        end
        assert.same({ "JSON solid 3px", "Prometheus solid 3px", "live solid 3px" }, stops)
        assert.is_true(browser:eval "document.getElementById('live').checked")
        browser:press " "
        assert.is_false(browser:eval "document.getElementById('live').checked")
    end)

    seen("stays up to date, and leaves the keyboard where it is", function()
        browser:press "Tab"
        start "/hold?name=later"
        eventually(function()
            return browser:eval "document.querySelector('main').innerText":find "later"
        end)
        assert.equal("JSON", browser:eval "document.activeElement.textContent")
        assert.equal(1, browser:eval "document.querySelectorAll('main').length")
    end)

    seen("says which server is down, and what to do", function()
        -- It comes back empty, and votes at once: the others must have all that is held. Who was
        -- not connected yet when a lock was taken gets it with the first extension.
        eventually(function()
            local held = json().held + 2         -- "theirs"; the term of "boss"
            return cluster[1]:keys() == held and cluster[2]:keys() == held
        end)
        cluster[3]:kill()
        eventually(function()
            browser:open(url)
            return text():find "2 of 3 servers vote" and text():find "down"
                and text():find "refused"
        end)
        cluster[3]:start():admit()
        eventually(function()
            browser:open(url)
            return text():find "all 3 servers vote"
        end)
    end)

    it("is JSON for programs, and text for Prometheus", function()
        local found = json()
        assert.equal(2, #found.workers)
        assert.equal(3, #found.servers)
        assert.equal("admitted", found.servers[1].guard)
        assert.equal(120, #found.chart)
        assert.equal("printer", found.queues[1].name)
        assert.equal("elsewhere 9", found.queues[2].label)
        assert.equal(1, found.queues[1].calls)
        assert.equal("short", found.losses[1].name)
        local names = {}
        for i, hold in ipairs(found.holds) do
            names[hold.name] = i
            assert.is_true(hold.held > 0 and hold.left > 0 and hold.left <= 30)
        end
        assert.truthy(names[HOSTILE] and names.printer)
        local got = 0
        eventually(function()        -- the slot of the last one is over
            for _, slot in ipairs(json().chart) do
                got = got + slot.got
            end
            return got >= 3
        end)
        local page = ng:get "/status?format=prometheus"
        assert.equal("", prometheus.complaints(page, "prometheus") or "")
        assert.equal(found.clients, prometheus.samples(page).redlock_clients)
    end)

    it("comes as what is asked for", function()
        local function type_of(accept)
            local p = support.spawn { "curl", "-s", "-i", "-H", "Accept: " .. accept, url,
                stdout = "pipe" }
            local head = p:read_all(20):match "^(.-)\r\n\r\n"
            head = head:lower()
            assert.matches("cache%-control: no%-store", head)
            return head:match "content%-type: ([^;\r]*)", head
        end
        local kind, head = type_of "text/html,application/xhtml+xml,*/*;q=0.8"
        assert.equal("text/html", kind)
        assert.matches("content%-security%-policy: default%-src 'none';", head)
        assert.equal("application/json", (type_of "application/json"))
        assert.equal("text/plain", (type_of "text/plain;version=0.0.4"))
        assert.equal("application/openmetrics-text", (type_of "application/openmetrics-text"))
        assert.equal("text/html", (type_of "*/*"))
    end)

    -- Nightly: a bound on time of the processor
    it("never keeps a worker for more than 1 ms #nightly", function()
        assert.equal("ok", (ng:get("/many?n=1500", 60)))
        for _, how in ipairs { "html", "json" } do
            local ms = tonumber((ng:get("/longest?how=" .. how, 60)))
            assert.is_true(ms < 1, ("%s: %.3f ms"):format(how, ms))
        end
    end)
end)
