-- The page on metrics: its configurations work as they stand, and its alarms go off.
local build = require "spec.support.build"
local metrics = require "redlock.metrics"
local pages = require "spec.support.pages"
local prometheus = require "spec.support.prometheus"
local support = require "spec.support"
local sys = require "spec.support.sys"

local FOLDER = build.root .. "/examples/metrics/"
local PAGE = "examples/metrics/README.md"

-- What is counted, once a minute.
local SERIES = {
    { 'clients{instance="a",job="redlock"}', "2x60" },
    { 'server_voting{instance="a",job="redlock",server_address="up"}', "2x60" },
    { 'server_voting{instance="a",job="redlock",server_address="down"}', "1x60" },
    { 'acquires_total{instance="a",group="g",outcome="no_quorum"}', "0+6x60" },
    { 'acquires_total{instance="b",group="g",outcome="held"}', "0+6x60" },
    { 'losses_total{instance="a",group="g",reason="taken"}', "0x25 1x35" },
    { 'losses_total{instance="a",group="g",reason="expired"}', "0x60" },
    { 'server_clock_offset_seconds{instance="a",server_address="off"}', "-0.5x60" },
    { 'server_clock_offset_seconds{instance="a",server_address="on"}', "0.1x60" },
    { 'wait_duration_seconds_bucket{group="g",le="4.096"}', "0x60" },
    { 'wait_duration_seconds_bucket{group="g",le="8.192"}', "0+9x60" },
    { 'wait_duration_seconds_bucket{group="g",le="+Inf"}', "0+9x60" },
    { 'acquire_duration_seconds_bucket{instance="a",le="0.2048"}', "0x60" },
    { 'acquire_duration_seconds_bucket{instance="a",le="0.4096"}', "0+9x60" },
    { 'acquire_duration_seconds_bucket{instance="a",le="+Inf"}', "0+9x60" },
}

-- The alarms that go off by that, once each.
local ALARMS = { "NoQuorum", "ServerWithoutVote", "Lost", "WaitsLong", "ServersSlow", "Clock" }

-- A test of rules, as promtool wants it.
local function test_of(rules)
    local lines = { ("rule_files: [%q]"):format(rules), "evaluation_interval: 1m", "tests:",
        "  - interval: 1m", "    input_series:" }
    for _, row in ipairs(SERIES) do
        lines[#lines + 1] = ("      - { series: 'redlock_%s', values: '%s' }")
            :format(row[1], row[2])
    end
    for _, line in ipairs { "    promql_expr_test:",
        "      - expr: count by (alertname) (ALERTS{alertstate='firing'})",
        "        eval_time: 30m", "        exp_samples:" } do
        lines[#lines + 1] = line
    end
    for _, alarm in ipairs(ALARMS) do
        lines[#lines + 1] = ("          - { labels: '{alertname=\"Redlock%s\"}', value: 1 }")
            :format(alarm)
    end
    return table.concat(lines, "\n") .. "\n"
end

-- With a limit that a slow machine keeps.
local function eventually(fn)
    return support.eventually(fn, 60)
end

describe("the page on metrics", function()
    it("has a configuration for nginx that works as it stands", function()
        local cluster = support.cluster(3, { unnamed = true })
        local code = assert(pages.snippets(PAGE, "nginx")[1])
        code = code:gsub("nodes = %b{}", "nodes = '" .. table.concat(cluster:uris(), " ") .. "'")
        local port = support.free_port()
        code = code:gsub("127.0.0.1:9145", "127.0.0.1:" .. port)
        -- Blocks that the nginx of the specs has as well.
        local init, init_worker
        code = code:gsub("init_by_lua_block (%b{})", function(block)
            init = block:match "^{(.*)}$"
            return ""
        end):gsub("init_worker_by_lua_block (%b{})", function(block)
            init_worker = block:match "^{(.*)}$"
            return ""
        end)
        local ng = support.nginx { nodes = cluster, workers = 2, http = code, init = init,
            init_worker = init_worker, server = [[
                location = /use { content_by_lua_block {
                    assert(locks:getLock("invoice:42"):tryLock(10))
                    assert(locks:getLock("invoice:42"):unlock())
                    ngx.print "ok"
                } }]] }
        assert.equal("ok", (ng:get "/use"))
        local function get(path)
            local p = support.spawn { "curl", "-s", "-m", "20",
                ("http://127.0.0.1:%d%s"):format(port, path), stdout = "pipe" }
            return p:read_all(25)
        end
        eventually(function()
            return get "/metrics":find('_acquires_total{group="invoice",outcome="acquired"} 1', 1,
                true)
        end)
        eventually(function() return get "/locks":find("all 3 servers vote", 1, true) end)
        assert.matches('"workers": %["', get "/locks?format=json")
        ng:ends()
    end)

    -- The metrics that there are, without the endings of histograms.
    local function names()
        local m, set = metrics.new(), {}
        m.meter:acquired("a", 0)
        for name in m:text():gmatch "# TYPE (%S+)" do
            set[name] = true
        end
        return set
    end

    it("has alarms that go off for the first failure of a program", function()
        local path = os.getenv "PROMTOOL" or "promtool"
        if not support.sh("command -v " .. path .. " > /dev/null") then
            pending "no promtool is installed (PROMTOOL=path)"
            return
        end
        local file = support.tmpdir() .. "/test.yml"
        sys.write_file(file, ([[
rule_files: [%q]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - { series: 'redlock_losses_total{instance="a",group="g",reason="taken"}',
          values: '_x8 1x60' }
      - { series: 'redlock_acquires_total{instance="a",group="g",outcome="no_quorum"}',
          values: '_x8 1x60' }
    promql_expr_test:
      - expr: count by (alertname) (ALERTS{alertstate='firing'})
        eval_time: 4m
        exp_samples:
          - { labels: '{alertname="RedlockLost"}', value: 1 }
          - { labels: '{alertname="RedlockNoQuorum"}', value: 1 }
]]):format(FOLDER .. "rules.yml"))
        assert.is_true(support.sh(path .. " test rules " .. file))
    end)

    it("names metrics that there are, and all of them", function()
        local set, seen = names(), {}
        for text in pages.text(PAGE):gmatch "`([%w_]+)`" do
            if text:find "^redlock_" then
                assert.is_true(set[text], text)
                seen[text] = true
            elseif text:find "^_%l+_total$" then
                seen["redlock_server" .. text] = true
            end
        end
        assert.same(set, seen)
        for name in assert(sys.read_file(FOLDER .. "rules.yml")):gmatch "(redlock_[%l_]+)" do
            assert.is_true(set[(name:gsub("_bucket$", ""))], name)
        end
    end)

    it("has a configuration and alarms that Prometheus takes", function()
        for what, file in pairs { config = "prometheus.yml", rules = "rules.yml" } do
            local said = prometheus.check(what, FOLDER .. file)
            if not said then
                return pending "no promtool is installed (PROMTOOL=path)"
            end
            assert.equal("", said)
        end
    end)

    it("has alarms that go off, and do not for what is well", function()
        local file = support.tmpdir() .. "/tests.yml"
        sys.write_file(file, test_of(FOLDER .. "rules.yml"))
        local said = prometheus.test(file)
        if not said then
            return pending "no promtool is installed (PROMTOOL=path)"
        end
        assert.equal("", said)
    end)
end)
