-- Pictures of what happened, looked at with a real browser.
local cjson = require "cjson"
local support = require "spec.support"
local build = require "spec.support.build"
local sys = require "spec.support.sys"
local render = require "spec.timeline.render"

local RENDER = build.root .. "/spec/timeline/render.lua"

-- A hold that is renewed once and goes on after its validity, while another enters.
local STORY = [[
{"t":0,"lane":"server 1","kind":"up","text":"started"}
{"t":0,"lane":"server 10","kind":"up","text":"started"}
{"t":0,"lane":"server 2","kind":"up","text":"started"}
{"t":100,"lane":"client 1","kind":"waiting","lock":"a","text":"tryLock(5, 0.5)"}
{"t":150,"lane":"client 1","kind":"holding","lock":"a","until":650,"text":"3 of 5"}
{"t":150,"lane":"resource","kind":"enter","lock":"a","client":"client 1","token":7}
{"t":300,"lane":"client 1","kind":"validity","lock":"a","until":800,"text":"renewed"}
{"t":400,"lane":"server 2","kind":"frozen","text":"SIGSTOP"}
{"t":700,"lane":"server 2","kind":"up","text":"SIGCONT"}
{"t":500,"lane":"server 10","kind":"down","text":"kill -9"}
{"t":600,"lane":"server 1","kind":"clock","step_ms":-250,"text":"stepped"}
{"t":900,"lane":"client 2","kind":"holding","lock":"a","until":1400,"text":"<\"3\" & 'of' 5>"}
{"t":900,"lane":"resource","kind":"enter","lock":"a","client":"client 2","token":8}
{"t":900,"lane":"resource","kind":"violation","lock":"a","text":"client 1 is still inside"}
{"t":1000,"lane":"client 1","kind":"lost","lock":"a","text":"expired"}
{"t":1000,"lane":"resource","kind":"exit","lock":"a","client":"client 1"}
{"t":1000,"lane":"network","kind":"note","text":"client 2 cut off"}
{"t":1150,"lane":"client 2","kind":"frozen","text":"SIGSTOP"}
{"t":1180,"lane":"client 2","kind":"up","text":"SIGCONT"}
{"t":1200,"lane":"client 2","kind":"released","lock":"a"}
{"t":1200,"lane":"resource","kind":"exit","lock":"a","client":"client 2"}
]]

-- Runs in the page: what can be seen, as JSON.
local LOOK = [[
<script>
const box = (node) => { const r = node.getBoundingClientRect();
    return { x: r.x, y: r.y, w: r.width, h: r.height, kind: node.getAttribute("class"),
        title: (node.querySelector("title") || {}).textContent,
        label: (node.querySelector("text") || {}).textContent }; };
const many = (css) => Array.from(document.querySelectorAll(css)).map(box);
const seen = () => ({ bars: many(".bar"), wedges: many(".wedge"), marks: many("#points .mark"),
    lanes: Array.from(document.querySelectorAll(".lane")).map((n) => n.textContent),
    ticks: Array.from(document.querySelectorAll("#ticks text")).map((n) => n.textContent) });
const report = { before: seen(), links: Array.from(document.querySelectorAll("#violations a"))
    .map((a) => a.textContent), verdict: document.querySelector(".verdict").textContent,
    elsewhere: document.querySelectorAll("[src], link, image, use").length };
const held = document.querySelector(".bar.overdue"), at = box(held);
held.dispatchEvent(new PointerEvent("pointermove", { bubbles: true,
    clientX: at.x + at.w / 2, clientY: at.y + at.h / 2 }));
const tip = document.getElementById("tip");
report.tip = tip.textContent;
report.tip_shown = tip.getBoundingClientRect().width > 0;
document.querySelector("#violations a").click();
setTimeout(() => {
    report.after = seen();
    const pre = document.createElement("pre");
    pre.id = "report";
    pre.textContent = JSON.stringify(report);
    document.body.append(pre);
}, 50);
</script>
]]

local function chromium(dir, url, ...)
    local p = support.spawn { "chromium", "--headless", "--no-sandbox", "--disable-gpu",
        "--user-data-dir=" .. dir .. "/profile", "--window-size=1400,900",
        "--virtual-time-budget=5000", stdout = "pipe", stderr = "null",
        env = { HOME = dir }, ... , url }
    local text = assert(p.stdout:read_all(120))
    assert.equal(0, p:wait(60))
    return text
end

local function unescape(html)
    return (html:gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&amp;", "&"))
end

local function find(list, kind, text)
    for _, item in ipairs(list) do
        if (" " .. item.kind .. " "):find(" " .. kind .. " ", 1, true)
            and (not text or item.title:find(text, 1, true)) then
            return item
        end
    end
    error(("no %s with '%s'"):format(kind, text or ""))
end

local function run(...)
    return support.spawn { "luajit", RENDER, stderr = "pipe", env = support.lua_env(), ... }
end

describe("a timeline", function()
    local report

    setup(function()
        local dir = support.tmpdir()
        sys.write_file(dir .. "/in.jsonl", STORY)
        local p = run(dir .. "/in.jsonl", dir .. "/out.html", "one & only")
        assert.equal(0, p:wait(20), p.stderr:read_all())
        local html = sys.read_file(dir .. "/out.html")
        assert.matches("<h1>one &amp; only</h1>", html, nil, true)
        local looked = html:gsub("</body>", function() return LOOK .. "</body>" end)
        sys.write_file(dir .. "/look.html", looked)
        local dom = chromium(dir, "file://" .. dir .. "/look.html", "--dump-dom")
        report = cjson.decode(unescape(dom:match '<pre id="report">(.-)</pre>'))
    end)
    teardown(support.cleanup)

    it("has a lane for everybody, in the order people count", function()
        assert.same({ "network", "client 1", "client 2", "resource", "server 1", "server 2",
            "server 10" }, report.before.lanes)
    end)

    it("shows bars where and as long as things lasted", function()
        local bars = report.before.bars
        local up = find(bars, "up", "server 1\n")
        local ms = up.w / 1200                   -- pixels a millisecond
        assert.is_true(ms > 0.9)
        local function lasts(bar, from, to)
            assert.near(up.x + from * ms, bar.x, 2)
            assert.near((to - from) * ms, bar.w, 3)
            assert.is_true(bar.h > 5)
        end
        lasts(find(bars, "waiting"), 100, 150)
        lasts(find(bars, "holding", "client 1"), 150, 800)
        lasts(find(bars, "overdue", "client 1"), 800, 1000)
        lasts(find(bars, "holding", "client 2"), 900, 1200)
        lasts(find(bars, "frozen", "server 2"), 400, 700)
        lasts(find(bars, "frozen", "client 2"), 1150, 1180)
        lasts(find(bars, "down", "server 10"), 500, 1200)
        lasts(find(report.before.wedges, "validity", "until 650"), 150, 300)
        lasts(find(report.before.wedges, "validity", "renewed"), 300, 800)
    end)

    it("shows the validity shrink", function()
        local bar = find(report.before.bars, "holding", "client 1")
        local first = find(report.before.wedges, "validity", "until 650")
        assert.near(bar.h, first.h, 2)           -- full at its beginning
        assert.near(bar.y, first.y, 2)
    end)

    it("shows two inside at once one below the other", function()
        local one = find(report.before.bars, "inside", "client client 1")
        local two = find(report.before.bars, "inside", "client client 2")
        assert.is_true(one.x + one.w > two.x + 10)
        assert.is_true(two.y >= one.y + one.h - 2)
        assert.equal("7", find(report.before.marks, "token", "token 7").label)
        local token = find(report.before.marks, "token", "token 8")
        assert.equal("8", token.label)
        assert.is_true(token.y > one.y)
    end)

    it("shows losses, clock steps, notes and violations where they happened", function()
        local marks = report.before.marks
        for kind, text in pairs { lost = "expired", clock = "step ms -250", note = "cut off",
            violation = "still inside" } do
            assert.is_true(find(marks, kind, text).w > 5)
        end
        assert.equal("-250 ms", find(marks, "clock").label)
        assert.equal("1 violation", report.verdict)
        assert.same({ "900 ms" }, report.links)
    end)

    it("tells about a thing that is pointed at", function()
        assert.is_true(report.tip_shown)
        assert.matches("client 1\n800 ms to 1000 ms %(200 ms%)\npast its validity", report.tip)
        -- Whatever the text has in it.
        find(report.before.bars, "holding", [[<"3" & 'of' 5>]])
    end)

    it("goes to a violation when its link is followed", function()
        local before, after = report.before, report.after
        assert.is_true(find(after.bars, "overdue").w > 1.5 * find(before.bars, "overdue").w)
        local violation = find(after.marks, "violation")
        assert.near(130 + (1400 - 150) / 2, violation.x + violation.w / 2, 30)
        assert.are_not.same(before.ticks, after.ticks)
        assert.is_true(#after.ticks >= 4 and #before.ticks >= 4)
    end)

    it("needs nothing from elsewhere", function()
        assert.equal(0, report.elsewhere)
        local html = render.page({}, "empty")
        assert.is_nil(html:find("https?://[^w]"))     -- only the name of SVG
        assert.matches("No violation", html)
    end)
end)

describe("a long timeline", function()
    local events = {}

    setup(function()
        for i = 0, 49999 do
            local t, lane = i * 2, "client " .. i % 3
            events[#events + 1] = { t = t, lane = lane, kind = "holding", ["until"] = t + 500 }
            events[#events + 1] = { t = t + 1, lane = lane, kind = "released" }
            events[#events + 1] = { t = t, lane = "resource", kind = "enter", client = lane,
                token = i }
            events[#events + 1] = { t = t + 1, lane = "resource", kind = "exit", client = lane }
        end
        events[#events + 1] = { t = 50000, lane = "resource", kind = "violation", text = "!" }
        events[#events + 1] = { t = 10, lane = "client 1", kind = "lost", text = "!" }
    end)

    it("joins what cannot be told apart, says so, and keeps what matters", function()
        local html, model = render.page(events)
        assert.is_true(#html < 2e6, #html .. " bytes")
        assert.is_true(model.merged > 90000, model.merged .. " merged")
        assert.matches(model.merged .. " short bars are joined", html, nil, true)
        assert.matches("merged: %d+ x holding", html)
        assert.matches('class="mark lost"', html, nil, true)
        local near = {}
        for _, lane in ipairs(model.lanes) do
            for _, bar in ipairs(lane.bars) do
                if bar.t >= 49700 and bar.t <= 50300 then
                    near[bar.kind] = (near[bar.kind] or 0) + 1
                end
            end
        end
        assert.same({ holding = 301, inside = 301 }, near)
    end)
end)

describe("the renderer", function()
    local dir
    before_each(function()
        dir = support.tmpdir()
    end)
    after_each(support.cleanup)

    for what, line in pairs {
        ["is not JSON"] = '{"t":1',
        ["has no time"] = '{"lane":"client 1","kind":"lost"}',
        ["has no lane"] = '{"t":1,"kind":"lost"}',
        ["is of an unknown kind"] = '{"t":1,"lane":"client 1","kind":"lots"}',
        ["has an end that is no number"] =
            '{"t":1,"lane":"client 1","kind":"holding","until":"x"}',
    } do
        it("names a line that " .. what, function()
            sys.write_file(dir .. "/in", '{"t":1,"lane":"client 1","kind":"lost"}\n' .. line)
            local p = run(dir .. "/in", dir .. "/out.html")
            assert.equal(1, p:wait(20))
            assert.matches("/in:2: ", p.stderr:read_all())
            assert.is_nil(sys.read_file(dir .. "/out.html"))
        end)
    end

    it("says how it is used", function()
        local p = run()
        assert.equal(2, p:wait(20))
        assert.matches("usage:", p.stderr:read_all())
    end)
end)
