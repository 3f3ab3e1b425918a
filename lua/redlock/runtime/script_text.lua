--- Reads the texts of the scripts that run inside Redis, from lua/redlock/scripts.
--
-- That folder has one folder per kind of lock. Several files make one script; each says which
-- files come before it. A script knows the data and the clock of its server. It must not know of
-- other servers or majorities, which are the core's.

local io, package, assert, error = io, package, assert, error
local concat, format, unpack = table.concat, string.format, unpack

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

--- Like read(), of the library's own files: names below redlock.scripts ("lock.acquire").
function _M.own(...)
    local names = { ... }
    for i = 1, #names do
        names[i] = "redlock.scripts." .. names[i]
    end
    return _M.read(unpack(names))
end

--- Gives a script to a client's core, and returns its number there; nil: no memory. C: that core's
-- namespace; what: the script's name in errors. Raises when the core has no room.
function _M.register(C, client, what, body)
    local id = C.rl_script(client.core, body, #body)
    if id == -1 then
        error(format("redlock: %s: a client has room for %d different scripts", what,
            C.RL_MAX_SCRIPTS), 0)
    end
    return id >= 0 and id or nil
end

return _M
