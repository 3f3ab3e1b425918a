-- The page on errors: each code once, and the calls that return it, as the reference has them.
local pages = require "spec.support.pages"
local reference = require "spec.support.reference"
local support = require "spec.support"
local sys = require "spec.support.sys"

local PAGE = "examples/errors/README.md"
local CALLS, SERVERS =
    pages.text(PAGE):match "\n## Codes of calls\n(.*)(\n## Codes of servers\n.*)$"

-- The sections of codes of calls: a list of { code = , text = }.
local function sections()
    local list = {}
    for code, text in CALLS:gsub("\n### ", "\0"):gmatch "%z([%l_]+)\n([^%z]*)" do
        list[#list + 1] = { code = code, text = text }
    end
    return list
end

-- Each word of a list is in a set, once, and nothing else is.
local function assert_all_once(set, list)
    local seen = {}
    for _, word in ipairs(list) do
        assert.is_nil(seen[word], word .. " is there twice")
        seen[word] = true
    end
    assert.same({}, reference.differences(seen, set))
end

-- The methods whose reference says that they return a code: code -> { [method] = true }, and all
-- methods.
local function documented()
    local codes, of, all = reference.values_of "redlock.Code", {}, {}
    for code in pairs(codes) do
        of[code] = {}
    end
    for _, name in ipairs(reference.model.order) do
        for _, method in ipairs(reference.model[name].methods or {}) do
            all[method.name] = true
            for _, value in ipairs(method.returns) do
                local may_be_one = value.type:find "Error" or method.name == "once"
                for code in pairs(may_be_one and codes or {}) do
                    if (" " .. value.text):find("[ ;]" .. code .. "%f[^%w_]") then
                        of[code][method.name] = true
                    end
                end
            end
        end
    end
    return of, all
end

describe("the page on errors", function()
    it("has each code of a call once, and nothing else", function()
        local codes = {}
        for _, section in ipairs(sections()) do
            codes[#codes + 1] = section.code
        end
        assert_all_once(reference.values_of "redlock.Code", codes)
    end)

    it("says of each where it comes from, what it means, what was done and what to do", function()
        for _, section in ipairs(sections()) do
            local words = {}
            for word in section.text:gmatch "\n%- %*%*(%u%l+)%*%* " do
                words[#words + 1] = word
            end
            assert.same({ "From", "Means", "Done", "Do" }, words, section.code)
        end
    end)

    it("names the calls that return it", function()
        local of, all = documented()
        for _, section in ipairs(sections()) do
            local from = section.text:match "%*%*From%*%* (.-)\n%- "
            local named = {}
            for name in from:gmatch "`(%a[%w_]*)`" do
                assert.is_true(all[name] or name == "wait_all", name)
                named[name] = true
            end
            -- Of most calls, and of futures, which return what calls return, no list is kept.
            if from:find "^`" then
                assert.same({}, reference.differences(of[section.code], named), section.code)
            end
        end
    end)

    it("has each code of a server once, and nothing else", function()
        local codes = {}
        for code in SERVERS:gmatch "\n| `([%l_]+)` |" do
            codes[#codes + 1] = code
        end
        assert_all_once(reference.values_of "redlock.NodeCode", codes)
    end)

    it("is in the manual page: each code, what it means and what to do", function()
        local page = support.tmpdir() .. "/redlock.1"
        assert(support.sh("luajit rockspec/man " .. page))
        local source = { ["ERRORS"] = {}, ["ERRORS OF SERVERS"] = {} }
        for _, section in ipairs(sections()) do
            source["ERRORS"][section.code] = section.text
        end
        for code, text in SERVERS:gmatch "\n| `([%l_]+)` |([^\n]*)" do
            source["ERRORS OF SERVERS"][code] = text
        end
        for name, text in sys.read_file(page):gsub("\n%.SH ", "\0"):gmatch "%z([%u ]+)\n([^%z]*)" do
            for code, says in text:gsub("\n%.TP\n%.B ", "\1"):gmatch "\1([%l_]+)\n([^\1]*)" do
                local last = says:lower():match "(%l+)%A*$"
                assert.truthy(source[name][code]:lower():find(last, 1, true), code .. ": " .. says)
                source[name][code] = nil
            end
        end
        assert.same({ ["ERRORS"] = {}, ["ERRORS OF SERVERS"] = {} }, source)
    end)
end)
