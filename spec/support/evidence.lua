-- Documents that say which test shows what: whether those tests are there.
local sys = require "spec.support.sys"

local _M = {}

local function read(path)
    return assert(sys.read_file(path), path .. " is not there")
end

-- The path of a spec, whose names are unique.
local function file_of(spec)
    local pipe = io.popen("ls spec/*/" .. spec .. ".lua")
    local path = pipe:read()
    pipe:close()
    return path or spec
end

-- Looks up what a cell of a table names:
--
--   lock_spec "a title", "another"     titles, or parts of them, in spec/*/lock_spec.lua
--   unit fence "c1_...", wire "..."    tests of spec/unit/test_fence.c and so on
--   models `a`, `b`; mutants `c`       variants in spec/models/run, spec/sim/mutants.lua
--
-- Returns how many there are; a name that is nowhere is an error.
function _M.check(cell)
    local found, kind, suite, at = 0, nil, nil, 1
    local function need(name, path, as)
        assert(read(path):find((as or "%s"):format(name), 1, true),
            ("%s has no %s"):format(path, name))
        found = found + 1
    end
    local readers = {
        { '^"([^"]+)"()', function(title)
            if suite then
                need(title, "spec/unit/test_" .. suite .. ".c", "T(%s)")
            else
                need(title, file_of(assert(kind, title)))
            end
        end },
        { "^`([^`]+)`()", function(variant)
            if kind == "models" then
                need(variant, "spec/models/run", " %s ")
            elseif kind == "mutants" then
                need(variant, "spec/sim/mutants.lua", 'name = "%s"')
            end
        end },
        { "^([%w_/]+)()", function(word)
            if kind == "unit" or kind == "spec/unit" then
                suite = word
            else
                kind = word
            end
        end },
        { "^(;)()", function() kind, suite = nil, nil end },
        { "^(.)()", function() end },
    }
    while at <= #cell do
        for _, reader in ipairs(readers) do
            local text, next_at = cell:match(reader[1], at)
            if text then
                reader[2](text)
                at = next_at
                break
            end
        end
    end
    return found
end

-- The rows of the tables in a text, as lists of cells; without headings and rules.
function _M.rows(text)
    local rows = {}
    for line in text:gmatch "|([^\n]+)|\n" do
        local cells = {}
        for cell in (line .. "|"):gmatch "([^|]*)|" do
            cells[#cells + 1] = cell:match "^%s*(.-)%s*$"
        end
        rows[#rows + 1] = cells
    end
    return rows
end

return _M
