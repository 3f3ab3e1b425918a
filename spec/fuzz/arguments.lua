-- Properties of what the Lua API does with its arguments, for spec/fuzz/lua.c: whatever is
-- given, it is taken as documented, or refused by an error that names the argument.
local redlock = require "redlock"
local card = require "redlock.text.card"
local encoding = require "redlock.text.encoding"
local options = require "redlock.servers.options"
local uri = require "redlock.servers.uri"

local huge, nan = math.huge, 0 / 0

-- ---- an input as a stream of choices ---------------------------------------------

local Input = {}
Input.__index = Input

function Input:byte()
    local b = self.data:byte(self.at) or 0
    self.at = self.at + 1
    return b
end

function Input:bytes(n)
    local s = self.data:sub(self.at, self.at + n - 1)
    self.at = self.at + n
    return s
end

function Input:rest()
    return self:bytes(#self.data)
end

function Input:pick(list, n)
    return list[self:byte() % (n or #list) + 1]
end

-- ---- what an error looks like ----------------------------------------------------

local function refused(err, ...)
    assert(type(err) == "string", "an error that is no string: " .. tostring(err))
    local place, what = err:match "^([^\n]-)redlock: bad ([^:]+): ."
    assert(what, "an error that names no argument: " .. err)
    assert(not place:find "lua/redlock/", "blames the library: " .. err)
    for _, name in ipairs { ... } do
        if what:find(name) then
            return
        end
    end
    error("an error that names something else: " .. err)
end

-- ---- addresses -------------------------------------------------------------------

local FIELDS = { "host", "port", "path", "user", "password", "db" }

local function same_server(a, b)
    for _, field in ipairs { "host", "port", "path", "db", "label" } do
        assert(a[field] == b[field], ("%s: %s is not %s"):format(field, tostring(a[field]),
            tostring(b[field])))
    end
end

local function check_node(n)
    assert((n.host == nil) ~= (n.path == nil))
    assert(n.db % 1 == 0 and n.db >= 0 and n.db <= 65535)
    assert(n.path or n.port % 1 == 0 and n.port >= 1 and n.port <= 65535)
    assert(not n.user or n.password or n.password_file)
    for _, field in ipairs { "host", "path", "user", "password" } do
        assert(type(n[field]) ~= "string" or not n[field]:find "%z", "a NUL in " .. field)
    end
    assert(not n.label:find "[%c]", "the label is not printable")
    -- What names a server is its address, without secrets.
    local again = uri.node(n.label, "label")
    assert((not again.tls) == (not n.tls))
    same_server(n, again)
    assert(not again.user and not again.password)
    local fields = {}
    for _, field in ipairs(FIELDS) do
        fields[field] = n[field]
    end
    fields.tls, fields.password_file = n.tls, n.password_file
    local third = uri.node(fields, "fields")
    same_server(n, third)
    assert(third.user == n.user and third.password == n.password)
end

local function address(input)
    local text = input:rest()
    local ok, n = pcall(uri.node, text, "nodes[1]")
    if ok then
        check_node(n)
    else
        refused(n, "^nodes%[1%]")
    end
end

local SCALARS = { "", "a", "127.0.0.1", "::1", "/run/r", "x y", "a/b", "a\0b", 0, 1, -1, 0.5, 6379,
    65535, 65536, 1e15, huge, -huge, nan, true, false, print, {} }

local function some_value(input)
    local b = input:byte()
    if b >= 128 then
        return input:bytes(b % 16)
    elseif b >= 96 then
        return (b - 96) / 4
    end
    return SCALARS[b % (#SCALARS + 1) + 1]
end

local function address_table(input)
    local t = {}
    for _ = 1, input:byte() % 8 do
        local b = input:byte()
        local field = FIELDS[b % 8 + 1] or b % 16 == 6 and "hsot" or nil
        if field then
            t[field] = some_value(input)
        end
    end
    local ok, n = pcall(uri.node, t, "nodes[1]")
    if ok then
        check_node(n)
    else
        refused(n, "^nodes%[1%]")
    end
end

-- ---- options ---------------------------------------------------------------------

local NAMES = {}
for name in pairs(options.defaults) do
    NAMES[#NAMES + 1] = name
end
table.sort(NAMES)

local function some_nodes(input)
    local nodes = {}
    for _ = 1, input:byte() % 5 do
        local b = input:byte()
        nodes[b % 8 == 7 and "x" or b % 8] = b >= 64 and "redis://h" .. b or some_value(input)
    end
    return nodes
end

-- They go to the nodes.
local OF_NODES = { user = true, password = true, password_file = true, password_env = true }

local function check_options(given, o)
    local n = 0
    for _ in pairs(given.nodes) do
        n = n + 1
    end
    assert(type(given.nodes) == "string" or #o.nodes == n, "a node was not counted")
    assert(o.lease <= o.max_lease and o.lease > o.lease * o.drift_factor + 0.002)
    assert(o.timeout > 0 and o.connect_timeout > 0 and o.fallback > 0)
    local again = {}
    for _, name in ipairs(NAMES) do
        assert((o[name] ~= nil) ~= (OF_NODES[name] or false))
        if given[name] ~= nil and not OF_NODES[name] then
            assert(o[name] == given[name], name .. " was changed")
        end
        again[name] = o[name]
    end
    again.nodes = {}
    for i, node in ipairs(o.nodes) do
        check_node(node)
        again.nodes[i] = node.label
    end
    local second = options.new(again)
    for _, name in ipairs(NAMES) do
        assert(second[name] == again[name] or OF_NODES[name])
    end
end

local function option_table(input)
    local given = { nodes = some_nodes(input) }
    for _ = 1, input:byte() % 8 do
        local b = input:byte()
        given[NAMES[b % (#NAMES + 1) + 1] or "laese"] = some_value(input)
    end
    local copy = {}
    for name, value in pairs(given) do
        copy[name] = value
    end
    local ok, o = pcall(options.new, given)
    for name, value in pairs(given) do
        assert(copy[name] == value or value ~= value, "the argument was changed")
    end
    if ok then
        check_options(given, o)
    else
        refused(o, "^option ", "^options$", "^nodes%[%d+%]")
    end
end

-- ---- names, calls, transfers -----------------------------------------------------

-- Nobody listens there: what asks the servers fails at once, and says so.
local client = redlock.new { nodes = { "unix:///nonexistent/redis" }, timeout = 0.01,
    connect_timeout = 0.01, patience = 0 }

local function some_name(input)
    local b = input:byte()
    if b >= 64 then
        return input:bytes(b - 63)
    end
    return some_value(input)
end

local function names(input)
    local name = some_name(input)
    local ok, lock = pcall(client.getLock, client, name)
    if not ok then
        return refused(lock, "^name$")
    end
    assert(type(name) == "string" and #name >= 1 and #name <= 65536)
    assert(lock:getName() == name)
    assert(not tostring(lock):find "[^ -~]" and not lock:describe():find "[^ -~]")
    assert(lock:remaining() == 0 and not lock:isValid() and lock:getHoldCount() == 0)
    local got, err = lock:unlock()
    assert(not got and err.code == "not_held")
end

local function trouble(ok, got, err)
    if not ok then
        return refused(got, "^wait$", "^lease$", "^options$", "^fn$", "^transfer$")
    end
    assert(got == nil and redlock.is_error(err), "no error object")
    assert(not tostring(err):find "[^ -~]")
end

local function durations(input)
    local lock = client:getLock "a"
    local wait, lease = some_value(input), some_value(input)
    if type(wait) == "number" and wait > 0 and wait < huge then
        wait = wait % 0.001
    elseif wait == huge then
        wait = 0
    end
    trouble(pcall(lock.tryLock, lock, wait, lease))
end

-- Of a lock, and of a permit with a token.
local TRANSFERS = { "redlock1.6c6f636b..61." .. ("ab"):rep(20) .. ".30000.0",
    "redlock1.7065726d6974..61." .. ("ab"):rep(20) .. ".30000.2+7" }

local function transfers(input)
    local text = input:byte() % 4 == 0 and some_value(input) or input:rest()
    local how = input:byte()
    if how % 2 == 1 then
        local transfer = TRANSFERS[how % 8 < 4 and 1 or 2]
        local at = input:byte() % #transfer
        text = transfer:sub(1, at) .. tostring(text) .. transfer:sub(at + 1 + input:byte() % 4)
    end
    if how % 4 == 3 then
        text = encoding.add_checksum(text, ".")       -- else most end there
    end
    local ok, got, err = pcall(client.import, client, text)
    assert(ok == (type(text) == "string"), "an import that should not be")
    trouble(ok, got, err)
end

-- What servers say of a holder: it is a card, or it is not.
local function cards(input)
    local text = input:byte() % 2 == 0 and input:rest() or (input:byte() % 2 == 0 and "12 " or "")
        .. ("0123456789abcdef"):rep(3):sub(1, 20) .. " " .. input:rest()
    local who = card.who(text)
    local says_nothing = text == "" or #text <= 20 and text:find "^%d+ $" ~= nil
    assert((who == nil) == says_nothing, "whoever says something can be told from others")
    local its = who and card.behind(who, 20)
    assert(not its or #its.label <= card.MAX and not its.label:find "[^ -~]"
        and its.since >= 0 and its.since < 2 ^ 48)
    local label = card.with_job(card.label(text), text)
    assert(#label <= card.MAX and not label:find "[^ -~]")
end

local PROPERTIES = { address, address_table, option_table, names, durations, transfers, cards }

return function(data)
    local input = setmetatable({ data = data, at = 1 }, Input)
    input:pick(PROPERTIES)(input)
end
