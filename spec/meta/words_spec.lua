-- What pages, units, help and recipes say of one thing is the same: names of locks, exit statuses,
-- flags and options, and their defaults.
local build = require "spec.support.build"
local flags = require "redlock.cli.flags"
local help = require "redlock.cli.help"
local options = require "redlock.servers.options"
local pages = require "spec.support.pages"

local texts = {}                 -- path -> text; long commands on one line
for path in io.popen("cd " .. build.root .. " && ls README.md SECURITY.md spec/SAFETY.md "
    .. "spec/ATTACKS.md $(find examples -type f ! -name '*.png' ! -name '*.svg')"):lines() do
    texts[path] = pages.text(path):gsub("\\\n%s*", " ")
end
for _, verb in ipairs(help.verbs) do
    texts["redlock " .. verb .. " --help"] = help.for_verb(verb)
end
texts["redlock --help"] = help.general()

-- Calls fn(path, verb, words) for each command in them; words: up to its end or a comment.
local function each_command(fn)
    local n = 0
    for path, text in pairs(texts) do
        for verb, rest in text:gmatch "redlock (%l+) ([^\n`]*)" do
            if path:find "redlock" and rest:find "^[%u[]" then
                rest = ""                          -- the usage
            end
            local known = pcall(require, "redlock.cli." .. verb) and help.verb(verb)
            if known then
                fn(path, verb, (rest:gsub(" +#.*", "")), known)
                n = n + 1
            end
        end
    end
    assert.is_true(n > 60, n)
end

describe("pages, units, help and recipes", function()
    it("start a program under the same name everywhere", function()
        local names, system = {}, { sh = true, sleep = true, echo = true }
        each_command(function(path, _, words)
            local name, program = words:match "^([^-]%S*).- %-%- (%S+)"
            program = program and program:gsub("^.*/", ""):gsub("%.sh$", "")
            if program and not system[program] then
                local first = names[program] or { name, path }
                assert.equal(first[1], name, ("%s in %s and %s"):format(program, first[2], path))
                names[program] = first
            end
        end)
        assert.equal("nightly", names.report[1])
        assert.equal("scheduler", names.scheduler[1])
    end)

    it("give verbs flags that they have", function()
        each_command(function(path, verb, words, module)
            local kinds = flags.kinds(module.flags)
            words = words:gsub(" %-%- .*", ""):gsub(" [|&;].*", "")
            for flag in words:gmatch "%f[-]%-%-%l[%l-]*" do
                assert.truthy(kinds[flag], ("%s: redlock %s %s"):format(path, verb, flag))
            end
        end)
        local all = {}
        for _, verb in ipairs(help.verbs) do
            for flag in pairs(flags.kinds(help.verb(verb).flags)) do
                all[flag] = true
            end
        end
        for path, text in pairs(texts) do
            for flag in text:gmatch "`(%-%-%l[%l-]*)[` ]" do
                assert.truthy(all[flag], path .. ": " .. flag)
            end
        end
    end)

    it("expect statuses that the verb has", function()
        local has, n = {}, 0
        for _, row in ipairs(help.statuses) do
            has[row[1]] = true
            for verb in row[2]:gmatch "%l+" do
                has[verb .. " " .. row[1]] = true
            end
        end
        each_command(function(path, verb, words)
            local status = words:match "test %$%? = (%d+)"
            assert.truthy(not status or has[verb .. " " .. status], path .. ": " .. words)
        end)
        for path, text in pairs(texts) do
            local unit = text:match "\nSuccessExitStatus=(%d+)"
            assert.truthy(not unit or has["run " .. unit], path)
            for status in text:gmatch "[Ss]tatus (%d+)" do
                n = n + 1
                assert.truthy(has[status] or tonumber(status) >= 400, path .. ": " .. status)
            end
            for status in text:gmatch "exits? with (%d+)" do
                n = n + 1
                assert.truthy(has[status], path .. ": " .. status)
            end
        end
        assert.is_true(n > 10, n)
    end)

    it("name options that exist, with their defaults", function()
        local n, defaults = 0, options.defaults
        for path, text in pairs(texts) do
            for option, value, unit in text:gmatch "`([%l_]+)` %((%d[%d,.]*) ?(%%?)" do
                if defaults[option] then
                    value = tonumber((value:gsub(",", ""))) / (unit == "%" and 100 or 1)
                    assert.equal(defaults[option], value, path .. ": " .. option)
                    n = n + 1
                end
            end
            for flag, value in text:gmatch "`%-%-([%l-]+)` seconds later %((%d+)%)" do
                assert.same({ "kill-after", "5" }, { flag, value }, path)
            end
            for option in text:gmatch "[Oo]ption `([%l_]+)" do
                assert.truthy(defaults[option] ~= nil or option == "nodes"
                    or option == "on_elected" or option == "foreign", path .. ": " .. option)
            end
        end
        assert.is_true(n >= 8, n)
        for _, path in ipairs(pages.list) do
            for _, conf in ipairs(pages.snippets(path, "conf")) do
                for option in ("\n" .. conf):gmatch "\n([%l_]+) = " do
                    assert.truthy(defaults[option] ~= nil or option == "nodes", option)
                end
            end
        end
    end)
end)
