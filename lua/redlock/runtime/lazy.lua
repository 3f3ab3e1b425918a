--- Modules that are loaded at their first use; or all at once, where a request must not read files.

local error, io, pairs, require, type = error, io, pairs, require, type
local format, package = string.format, package

local _M = {}

local names = {}

-- The version that the files of this library have now; nil: it is not loaded from files.
local function version_of_files()
    local path = package.searchpath("redlock", package.path)
    local file = path and io.open(path, "rb")
    if file then
        local text = file:read "*a"
        file:close()
        return text:match '_VERSION = "([^"]*)"'
    end
end

-- What runs must not meet modules of a package that was upgraded meanwhile.
local function load(name)
    local runs, found = package.loaded.redlock, version_of_files()
    if type(runs) == "table" and found and found ~= runs._VERSION     -- else it is being loaded
        and not package.loaded[name] then
        error(format("redlock: %s was installed while this program runs %s: restart it", found,
            runs._VERSION), 0)
    end
    return require(name)
end

--- @param name  of a module
-- @return a function that returns the module; it raises if the files are of another version
function _M.loader(name)
    names[name] = true
    local module
    return function()
        module = module or load(name)
        return module
    end
end

--- Loads all of them.
function _M.load_all()
    for name in pairs(names) do
        load(name)
    end
end

return _M
