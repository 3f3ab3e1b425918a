-- The words of the status page, for each state of a host. In a browser: hosts/nginx_status_spec.
local page = require "redlock.status.page"
local status = require "redlock.status"

local function nothing() end

-- The page of a host with nothing, but for these fields.
local function html(fields)
    local found = { host = "web", time = 86400, held = 0, waiting = 0, clients = 1, lost = 0,
        workers = {}, servers = {}, holds = {}, queues = {}, losses = {},
        chart = { seconds = 5, { got = 0, failed = 0, lost = 0 } } }
    for name, value in pairs(fields) do
        found[name] = value
    end
    return page.render(found, "nonce", nothing)
end

local function server(voting, round_trip)
    return { server = "redis://127.0.0.1:1", connected = 1, voting = voting,
        round_trip = round_trip }
end

local function latency(seconds)
    return html { servers = { server(1, seconds) } }:match 'Latency" class="short">(.-)</td>'
end

describe("the status page", function()
    it("says whether a majority votes", function()
        local up, away = server(1), server(0)
        assert.matches("no client is connected yet", html { clients = 0 })
        assert.matches(">all 3 servers vote<", html { servers = { up, up, up } })
        assert.matches('"odd">2 of 3 servers vote<', html { servers = { up, up, away } })
        assert.matches('"bad">1 of 3 servers vote: no majority<',
            html { servers = { up, away, away } })
    end)

    it("is for workers of nginx, and prints itself", function()
        local s = status.new { metrics = { dict = {}, snapshot = nothing } }
        assert.equal("status", tostring(s))
        assert.error_matches(function() s:serve() end, "for workers of nginx")
    end)

    it("gives times in units that people read", function()
        assert.equal("-", latency(nil))
        assert.equal("&lt; 1 ms", latency(0.0002))
        assert.equal("12 ms", latency(0.012))
        assert.equal("1.5 s", latency(1.5))
        assert.equal("5 min", latency(300))
        assert.equal("2.5 h", latency(9000))
    end)

    it("counts the locks for which it has no room", function()
        local hold = { name = "x", kind = "lock", held = 1, left = 2, label = "", worker = 1 }
        assert.is_nil(html { held = 1, holds = { hold } }:find("more", 1, true))
        assert.matches(">And 41 more%.<", html { held = 42, holds = { hold } })
    end)

    it("has a chart that is as high as it must be", function()
        local function top(got)
            return html { chart = { seconds = 1, { got = got, failed = 0, lost = 0 } } }
                :match '"numbers" aria%-hidden="true"><span>(.-)/s<'
        end
        assert.equal("1", top(0))
        assert.equal("5", top(3))
        assert.equal("20", top(11))
        assert.equal("500", top(201))
    end)
end)
