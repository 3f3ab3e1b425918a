--- Reads the texts of the scripts that run inside Redis, from lua/redlock/scripts.
--
-- That folder has one folder per kind of lock. Several files make one script; each says which
-- files come before it. A script knows the data and the clock of its server. It must not know of
-- other servers or majorities, which are the core's.

local io, package, assert, error, loadstring = io, package, assert, error, loadstring
local concat, find, format, match, sub = table.concat, string.find, string.format, string.match,
    string.sub

local _M = {}

local MAX = 256                  -- scripts of a client: more are made anew all the time

local function text_of_file(name)
    local path, tried = package.searchpath(name, package.path)
    if not path then
        error("redlock: a script is not installed. Looked for:" .. tried, 0)
    end
    local file = assert(io.open(path, "rb"))
    local body = file:read "*a"
    file:close()
    return body
end

local function joined(names, read_one)
    local parts = {}
    for i = 1, #names do
        parts[i] = read_one(names[i])
    end
    return concat(parts)
end

--- @param names  like those of modules ("mine.acquire"); the last script uses what the ones before
--   it declare
-- @return the text of one script. Raises when a file is not installed.
function _M.of_modules(names)
    return joined(names, text_of_file)
end

local texts = {}                 -- of the library's own files: most are part of several scripts

local function read_own(name)
    texts[name] = texts[name] or text_of_file("redlock.scripts." .. name)
    return texts[name]
end

--- Like of_modules(), of the library's own files: names below redlock.scripts ("lock.acquire").
function _M.own(...)
    return joined({ ... }, read_own)
end

-- Skips a string that begins at `at`.
-- @return where it ends; or nil and an escape that Lua 5.1 reads in another way
local function end_of_string(text, at)
    local quote = sub(text, at, at)
    repeat
        at = find(text, "[\\\"'\n]", at + 1) or #text
        local c = sub(text, at, at)
        if c == "\\" then
            at = at + 1
            if find(text, "^[uxz]", at) then
                return nil, sub(text, at - 1, at)
            end
        end
    until at >= #text or c == quote or c == "\n"
    return at
end

-- The first thing in a script that LuaJIT knows and Lua 5.1 does not; nil: there is none.
local function only_luajit(text)
    local at, what = 1, nil
    while at and at <= #text do
        local level = match(text, "^%-%-%[(=*)%[", at) or match(text, "^%[(=*)%[", at)
        local token = match(text, "^[%w_]+", at) or match(text, "^::", at)
        if level then
            at = find(text, "]" .. level .. "]", at, true)
        elseif find(text, "^%-%-", at) then
            at = find(text, "\n", at, true)
        elseif find(text, "^[\"']", at) then
            at, what = end_of_string(text, at)
        elseif token then
            at = at + #token - 1
            if token == "::" or token == "goto" and find(text, "^%s+[%a_]", at + 1)
                or find(token, "^0[bB]") or find(token, "^%d.*[lL][lL]$")
                or find(token, "^%d+[iI]$") then
                return token
            end
        end
        at = at and at + 1
    end
    return what
end

--- Compiles a script like a server, which runs Lua 5.1.
-- @return its function; or nil and why it does not compile
function _M.compile(text, name)
    local what = only_luajit(text)
    if what then
        return nil, what .. " is not Lua 5.1, which servers run"
    end
    return loadstring(text, name)
end

--- Gives a script to a client's core, and returns its number there; nil: no memory. C: that core's
-- namespace; what: the script's name in errors. Raises when the client has too many.
function _M.register(C, client, what, body)
    local known = client.registered
    if not known[body] then
        local id = client.scripts_registered < MAX and C.rl_script(client.core, body, #body) or -1
        if id == -1 then
            error(format("redlock: %s: a client has room for %d different scripts", what, MAX), 0)
        end
        known[body] = id >= 0 and id or nil
        client.scripts_registered = client.scripts_registered + (id >= 0 and 1 or 0)
    end
    return known[body]
end

return _M
