-- What the README says of tests, options and calls is so.
local defaults = require("redlock.api.options").defaults
local redlock = require "redlock"
local evidence = require "spec.support.evidence"

local function read(path)
    local f = assert(io.open(path))
    local text = f:read "*a"
    f:close()
    return text
end

describe("the README's table of attacks", function()
    local table_of_attacks = read "README.md":match "\n### Known attacks(.-)\n### "

    it("names tests that exist", function()
        local named = 0
        for _, cells in ipairs(evidence.rows(table_of_attacks)) do
            if cells[1] ~= "attack" and not cells[1]:find "^%-" then
                named = named + evidence.check(cells[3])
            end
        end
        assert.is_true(named > 30)
    end)
end)

-- The rows of the table below a heading, as lists of cells.
local function rows_of(heading)
    local rows = {}
    local section = read "README.md":match("\n### " .. heading .. "\n(.-)\n##")
    for line in section:gmatch "|([^\n]+)|\n" do
        local cells = {}
        for cell in line:gsub("\\\\|", "/"):gmatch "%s*([^|]*[^|%s])" do
            cells[#cells + 1] = cell
        end
        rows[#rows + 1] = cells
    end
    return rows
end

describe("the README's table of options", function()
    -- As it is written there: a number of seconds, `true`, `"push"`.
    local function is_default(cell, value)
        if type(value) == "number" then
            return tonumber(cell) == value
        elseif type(value) == "string" and value ~= "" then
            return cell == ('`"%s"`'):format(value) or cell == ("`%s`"):format(value)
        elseif value == "" then
            return cell == '`""`'
        end
        return cell:match "^`%a+`" == ("`%s`"):format(tostring(value))
            or value == false and cell:find "none"
    end

    it("has them all, with their defaults", function()
        local seen = {}
        for _, cells in ipairs(rows_of "Options") do
            for name in cells[1]:gmatch "`([%w_]+)`" do
                assert.is_nil(seen[name], name .. " is there twice")
                seen[name] = true
                if name ~= "nodes" then
                    assert.is_not_nil(defaults[name], "no option " .. name)
                    assert.truthy(is_default(cells[2], defaults[name]), name .. ": " .. cells[2])
                end
            end
        end
        for name in pairs(defaults) do
            assert.is_true(seen[name], name .. " is not there")
        end
    end)
end)

describe("the README's table of calls", function()
    it("names what exists, and all of it", function()
        local client = redlock.new { nodes = "redis://127.0.0.1:1" }
        local objects = { client = client, lock = client:getFencedLock "x", redlock = redlock }
        local text = ""
        for _, cells in ipairs(rows_of "Calls") do
            for of, method in cells[1]:gmatch "(%l+)[:.](%w+)" do
                assert.is_function(objects[of][method], of .. ":" .. method)
            end
            text = text .. cells[1]
        end
        for _, method in ipairs { "getLock", "getFencedLock", "token", "stillMine", "sequencer",
            "checkSequencer", "connect", "check", "init", "using", "import", "export", "stats",
            "close" } do
            assert.truthy(text:find(method .. "[`(]"), method)
        end
    end)
end)
