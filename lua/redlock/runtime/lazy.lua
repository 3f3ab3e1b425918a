--- Modules that loading the library leaves out. They are loaded at first use, or all at once when a
-- client is made (later there may be no descriptor left to read a file, or files of another
-- version), and in nginx when the library is loaded, in its master.

local pairs, require = pairs, require

local _M = {}

local names = {}

--- @param name  of a module
-- @return a function that returns the module
function _M.loader(name)
    names[name] = true
    local module
    return function()
        module = module or require(name)
        return module
    end
end

--- Loads all of them.
function _M.load_all()
    for name in pairs(names) do
        names[name] = nil
        require(name)
    end
end

return _M
