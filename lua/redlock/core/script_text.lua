--- Reads the texts of the Redis-side scripts, which are files beside the modules.

local io, package, assert, error, concat = io, package, assert, error, table.concat

local _M = {}

local function read(name)
    local path, tried = package.searchpath(name, package.path)
    if not path then
        error("redlock: a script is not installed. Looked for:" .. tried, 0)
    end
    local file = assert(io.open(path, "rb"))
    local body = file:read "*a"
    file:close()
    return body
end

--- @param ...  names like those of modules ("redlock.scripts.lock.acquire"); the last script
--   uses what the ones before it declare
-- @return the text of one script. Raises when a file is not installed.
function _M.read(...)
    local parts = { ... }
    for i = 1, #parts do
        parts[i] = read(parts[i])
    end
    return concat(parts)
end

return _M
