-- Each folder of c/ and lua/redlock knows only those below it, and the pure ones know nothing of
-- sockets, threads and clocks.

local sys = require "spec.support.sys"

-- A folder of c/ may include from itself and from those before it; "" is redlock.h.
local C = { "", "node", "core/base", "core/eligibility", "core/rounds", "core/leases", "core", "io",
    "engine", "world" }
local PURE = { ["core"] = true, ["node"] = true }
local IMPURE = { "^sys/", "^net", "^arpa/", "^pthread", "^time%.h", "^poll", "^unistd", "^signal",
    "^openssl/", "^dlfcn" }

-- hiredis is loaded where it cannot be linked: nothing that a schedule could depend on.
local EXCEPT = { ["c/node/load.h: dlfcn.h"] = true, ["c/node/reader.c: pthread.h"] = true }

-- Of what is in every file of the core.
local BITS = { bit = true, link_bit = true }

-- cdef is what make generates of redlock.h; init, resource, resty_lock, metrics and status are what
-- users require, and types what their editors read. What is in scripts/ runs inside Redis.
local ROOMS = { "cdef", "text", "runtime", "host", "servers", "inspect", "lock", "kinds", "client" }
local LUA = {
    resource = { "runtime", "text" },
    resty_lock = { "servers", "runtime", "text" },
    metrics = { "inspect", "servers", "runtime", "text" },
    status = { "runtime", "text" },
    init = { "client", "kinds", "lock", "resource", "runtime", "testing" },
    cli = { "init", "client", "kinds", "lock", "inspect", "servers", "runtime", "text" },
    testing = { "init", "host", "runtime", "text", "cdef" },
    types = { "init", "host", "resty_lock", "metrics", "status" },
}
for i, room in ipairs(ROOMS) do
    LUA[room] = { unpack(ROOMS, 1, i - 1) }
end

local function files(command)
    local list, pipe = {}, io.popen(command)
    for path in pipe:lines() do
        list[path] = sys.read_file(path)
    end
    pipe:close()
    return list
end

local function is_below(order, folder, other)
    for _, name in ipairs(order) do
        if name == other or name == folder then
            return name == other
        end
    end
end

local function allows(rules, folder, other)
    for _, name in ipairs(rules[folder] or {}) do
        if name == other then
            return true
        end
    end
    return folder == other
end

-- What points up, as "path: what".
local function wrong_includes(sources)
    local wrong = {}
    for path, text in pairs(sources) do
        local folder = path:match "^c/(.-)/?[^/]+$"
        for name in text:gmatch '#%s*include%s+"([^"]+)"' do
            if folder ~= "" and not is_below(C, folder, name:match "^(.-)/?[^/]+$") then
                wrong[#wrong + 1] = path .. ": " .. name
            end
        end
        for name in text:gmatch "#%s*include%s+<([^>]+)>" do
            for _, pattern in ipairs(PURE[folder:match "^%w*"] and IMPURE or {}) do
                if name:find(pattern) and not EXCEPT[path .. ": " .. name] then
                    wrong[#wrong + 1] = path .. ": " .. name
                end
            end
        end
    end
    return wrong
end

local function layer_of(module)
    local rest = module == "redlock" and "init" or module:match "^redlock%.(.+)"
    return rest and rest:match "^[%w_]+"
end

local function wrong_requires(sources)
    local wrong = {}
    for path, text in pairs(sources) do
        local layer = path:match "^lua/redlock/([%w_]+)"
        for module in text:gmatch "require%s*%(?%s*[\"']([%w_.]+)[\"']" do
            local other = layer_of(module)
            if other and layer ~= "scripts" and not allows(LUA, layer, other) then
                wrong[#wrong + 1] = path .. ": " .. module
            end
        end
    end
    return wrong
end

-- Files that need one another, directly or through others.
local function circles(needs)
    local found, state = {}, {}
    local function visit(file, way)
        if state[file] == "open" then
            found[#found + 1] = way .. " -> " .. file
        elseif not state[file] then
            state[file] = "open"
            for _, other in ipairs(needs[file] or {}) do
                visit(other, way .. " -> " .. file)
            end
            state[file] = "done"
        end
    end
    for file in pairs(needs) do
        visit(file, "")
    end
    return found
end

local function lua_needs(sources)
    local needs = {}
    for path, text in pairs(sources) do
        local module = path:match("^lua/(.*)%.lua$"):gsub("/", "."):gsub("%.init$", "")
        needs[module] = {}
        for other in text:gmatch "\n%s*local [^\n]-require%s*%(?%s*[\"'](redlock[%w_.]*)[\"']" do
            table.insert(needs[module], other)
        end
    end
    return needs
end

-- What only hosts know of hosts.
local function peeks(sources)
    local found = {}
    for path, text in pairs(sources) do
        for field in text:gmatch "%f[%w_]host%.([%w_]+)" do
            local own = field == "shared" or field == "mortal" or field == "box" or field == "dir"
            if own and not path:find "^lua/redlock/host/" then
                found[#found + 1] = path .. ": host." .. field
            end
        end
    end
    return found
end

-- The head of a function that is defined in C: its type, and its name.
local FUNCTION = "\n(%l[%w_ %*]-)([%w_]+)%([^;{}]*%)%s*\n{"

-- C without comments and strings.
local function code_of(text)
    return (text:gsub("/%*.-%*/", " "):gsub('"[^"\n]*"', '""'))
end

-- Adds a name, unless it is there.
local function add(list, name)
    for _, other in ipairs(list) do
        if other == name then
            return
        end
    end
    list[#list + 1] = name
end

-- The files of c/core that each one includes, or whose functions it calls, by their names
-- without an ending: a.c and a.h are one.
local function core_needs(sources)
    local owner, code, needs = {}, {}, {}
    for path, text in pairs(sources) do
        local file = path:match "^c/core/.-([%w_]+)%.[ch]$"
        if file then
            code[path], needs[file] = code_of(text), needs[file] or {}
            for kind, name in ("\n" .. code[path]):gmatch(FUNCTION) do
                if not kind:find "^static " or kind:find "^static inline" then
                    owner[name] = file
                end
            end
            for other in text:gmatch '#include "core/[^"]-([%w_]+)%.h"' do
                if other ~= file then
                    add(needs[file], other)
                end
            end
        end
    end
    for path, text in pairs(code) do
        local file = path:match "([%w_]+)%.[ch]$"
        for name in text:gmatch "([%a_][%w_]*)%s*%(" do
            if owner[name] and owner[name] ~= file then
                add(needs[file], owner[name])
            end
        end
    end
    return needs, owner
end

describe("the layers", function()
    local c = files "find c -name '*.[ch]'"
    local lua = files "find lua/redlock -name '*.lua' ! -path '*/scripts/*'"

    it("of c/ know only those below them", function()
        assert.same({}, wrong_includes(c))
    end)

    it("have no circle between the files of c/core, by includes or by calls", function()
        local needs, owner = core_needs(c)
        assert.equal("round", owner.round_begin)
        assert.equal("lease", owner.lease_fenced)
        assert.same({}, circles(needs))
    end)

    it("have functions in c/core that begin with the names of their files", function()
        local _, owner = core_needs(c)
        for name, file in pairs(owner) do
            assert.is_truthy(name:find("^" .. file:gsub("s$", "")) or BITS[name],
                name .. " in " .. file)
        end
    end)

    it("of lua/redlock know only those below them", function()
        assert.same({}, wrong_requires(lua))
        assert.same({}, circles(lua_needs(lua)))
    end)

    it("ask a host what it does, and not what it is", function()
        assert.same({}, peeks(lua))
    end)

    it("have no file outside of them", function()
        for path in pairs(c) do
            assert.is_truthy(path == "c/redlock.h" or is_below(C, nil, path:match "^c/(.+)/"), path)
        end
        for path in pairs(lua) do
            assert.is_truthy(LUA[path:match "^lua/redlock/([%w_]+)"], path)
        end
    end)
end)
