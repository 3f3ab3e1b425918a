-- `make site`: all pages, without dead links, readable on a telephone, and nothing from elsewhere.
-- Nightly, all of it: `make test` does not need mkdocs; pages_spec has the links
local browsers = require "spec.support.browser"
local pages = require "spec.support.pages"
local support = require "spec.support"
local sys = require "spec.support.sys"

local MISSING = not sys.sh "command -v mkdocs > /dev/null"
    and "mkdocs is missing (Debian's mkdocs and mkdocs-material)"

-- How many blocks of code are wider than what is shown of them.
local CLIPPED = [[Array.from(document.querySelectorAll("pre, pre > code")).filter(
    e => e.scrollWidth > e.clientWidth + 1).length]]

describe("make site", function()
    local dir, html = nil, {}

    setup(function()
        if MISSING then return end
        local build = support.tmpdir()
        local p = support.spawn { "make", "-s", "site", "BUILD=" .. build, stdout = "pipe",
            stderr = "stdout", env = support.lua_env() }
        local text = p:read_all(300)
        assert.equal(0, p:wait(300), text)
        dir = build .. "/site/"
        local find = "cd " .. dir .. " && find * -name '*.html' ! -name 404.html"
        for path in io.popen(find):lines() do
            html[path] = sys.read_file(dir .. path)
        end
    end)

    it("has all pages", function()
        if MISSING then return pending(MISSING) end
        for _, page in ipairs { "CHANGELOG.md", "CONTRIBUTING.md", unpack(pages.list) } do
            local path = page:gsub("README%.md$", "index.html"):gsub("%.md$", ".html")
            assert.truthy(html[path], path)
        end
        assert.matches("tryLock", html["reference/modules/lock.html"])
        for _, page in ipairs { "spec/SAFETY", "spec/ATTACKS", "spec/bench/index", "spec/sim/index",
            "examples/gateway/index", "examples/faq/index", "reference/modules/lock" } do
            assert.truthy(html["index.html"]:find(('href="%s.html"'):format(page), 1, true), page)
        end
        -- The table of contents.
        assert.matches('href="#Lock:tryLock" class="md%-nav__link"',
            html["reference/modules/lock.html"])
    end)

    it("has no dead links, and loads nothing from elsewhere", function()
        if MISSING then return pending(MISSING) end
        local n, sets = 0, {}
        local function names(path)
            if not sets[path] then
                sets[path] = {}
                for attribute, name in html[path]:gmatch '%s(%l+) ?= ?"([^"]*)"' do
                    sets[path][name] = attribute == "id" or attribute == "name" or nil
                end
            end
            return sets[path]
        end
        local function follow(from, link)
            local target, anchor = link:match "^([^#?]*)#?(.*)$"
            target = target == "" and from
                or sys.realpath(dir .. (from:match "^.*/" or "") .. target):sub(#dir + 1)
            target = sys.sh(("test -d '%s'"):format(dir .. target)) and target .. "/index.html"
                or target
            assert.truthy(sys.sh(("test -f '%s'"):format(dir .. target)), from .. ": " .. link)
            assert.truthy(anchor == "" or names(target)[anchor], from .. ": " .. link)
            n = n + 1
        end
        local seen = {}
        for path, text in pairs(html) do
            for tag, attribute, link in text:gmatch '<(%w+) [^>]-(%w+)="([^"]*)"' do
                local elsewhere = link:find "^%a+:"
                if (attribute == "src" or attribute == "href") then
                    assert.truthy(tag == "a" or not elsewhere, path .. ": " .. link)
                    local key = (path:match "^.*/" or "") .. " " .. link
                    if not elsewhere and (link:find "^#" or not seen[key]) then
                        seen[key] = true
                        follow(path, link)
                    end
                end
            end
        end
        assert.is_true(n > 500, n)
    end)

    it("is as wide as a telephone or a window, says nothing on the console, and finds", function()
        if MISSING then return pending(MISSING) end
        local browser = browsers.new()
        if not browser then return pending "chromium is missing (CHROMIUM=path)" end
        local port = support.free_port()
        support.spawn { "python3", "-m", "http.server", "-d", dir, "-b", "127.0.0.1",
            tostring(port), stdout = "null", stderr = "null" }
        support.eventually(function() return support.connect(port) end, 20)
        local root = ("http://127.0.0.1:%d/"):format(port)
        browser.errors, browser.requests = {}, {}
        for _, width in ipairs { 375, 1280 } do
            browser:resize(width)
            for path in pairs(html) do
                browser:open(root .. path)
                local is = browser:eval "document.documentElement.scrollWidth"
                assert.is_true(is <= width, ("%s at %d: %d"):format(path, width, is))
                is = browser:eval(CLIPPED)
                assert.is_true(width < 1280 or is == 0, ("%s clips code: %d"):format(path, is))
            end
        end
        browser:open(root .. "index.html?q=quarantine")
        support.eventually(function()
            return browser:eval 'document.querySelectorAll(".md-search-result__item").length' > 0
        end, 60)
        for _, url in ipairs(browser.requests) do
            assert.is_true(url:sub(1, #root) == root or url:find "^data:" ~= nil
                or url:find "^blob:" ~= nil, url)
        end
        assert.same({}, browser.errors)
        browser:close()
    end)
end)
