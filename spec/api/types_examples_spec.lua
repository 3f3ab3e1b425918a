-- Every example of the reference (lua/redlock/types.lua) runs, against real servers. Whatever is
-- called in it takes and returns what the reference says, and fails with no other codes.
local redlock = require "redlock"
local reference = require "spec.support.reference"
local support = require "spec.support"
local sys = require "spec.support.sys"
local typing = require "spec.support.typing"

local RESOURCE, model = reference.RESOURCE, reference.model
local resources = redlock[RESOURCE]

-- ---- calls, as they are made ---------------------------------------------------------

-- What any call that asks the servers can fail with.
local GENERAL = { closed = true, config = true, phase = true, nomem = true, cancelled = true }

-- "held; no_quorum: in vain" or "the token; or held; no_quorum": the codes.
local function codes_in(text)
    local codes = {}
    for part in (text:match "; or (.*)$" or text):gmatch "[^;]+" do
        codes[part:match "^%s*([%w_]+)"] = true
    end
    return codes
end

local function check_error(what, ret, err)
    local ok, why = typing.matches(model, err, "redlock.Error", what)
    assert(ok, why)
    assert(GENERAL[err.code] or codes_in(ret.text)[err.code], ("%s fails with %s"):format(what,
        err.code))
end

local function check_returns(what, method, n, values)
    local failed = values[1] == nil
    local last = method.returns[#method.returns]
    assert(n <= #method.returns or last.name == "...", what .. " returns more")
    for i, ret in ipairs(method.returns) do
        if ret.name == "..." then
            return
        elseif ret.type:find "OrError$" and failed or ret.type == "redlock.Error" then
            if failed then
                check_error(what, ret, values[i])
            else
                assert(values[i] == nil, what .. " returns an error with a result")
            end
        else
            local ok, why = typing.matches(model, values[i], ret.type, what .. ": " .. ret.name)
            assert(ok, why)
        end
    end
end

local function check_params(what, method, values)
    for i, param in ipairs(method.params) do
        local value = values[method.colon and i + 1 or i]
        if param.name ~= "..." and not (param.optional and value == nil) then
            local ok, why = typing.matches(model, value, param.type, what .. ": " .. param.name)
            assert(ok, why)
        end
    end
end

local calls = {}                 -- "class:method" -> how often it was called

-- A function that does what another one does, and looks at what goes in and comes out.
local function observed(fn, method)
    local what = method.of .. ":" .. method.name
    return function(...)
        calls[what] = (calls[what] or 0) + 1
        check_params(what, method, { ... })
        local function pass(...)
            check_returns(what, method, select("#", ...), { ... })
            return ...
        end
        return pass(fn(...))
    end
end

-- Where an object has a method from: the table of its class, or of one that it inherits from.
local function holder_of(object, name)
    local class = getmetatable(object).__index
    while rawget(class, name) == nil do
        class = getmetatable(class).__index
    end
    return class
end

local undo = {}

local function replace(t, name, fn)
    local old = t[name]
    undo[#undo + 1] = function() t[name] = old end
    t[name] = fn
end

-- object: false for a module.
local function observe(class, object)
    for name, method in pairs(typing.methods(model, class)) do
        local t = object and holder_of(object, name) or require(class)
        replace(t, name, observed(t[name], method))
    end
end

-- ---- what the examples are given -----------------------------------------------------

local cluster, events

local function new_client(opts)
    local o = { nodes = cluster:uris(), connect_timeout = 10, timeout = 5,
        on_event = function(e) events[#events + 1] = e end }
    for name, value in pairs(opts or {}) do
        o[name] = value
    end
    return redlock.new(o)
end

local GIVEN = {
    redlock = function() return redlock end,
    servers = function() return cluster:uris() end,
    client = function() return new_client() end,
    lock = function(given) return given.client:getLock "invoice:42" end,
    fenced = function(given) return given.client:getFencedLock "invoice:42" end,
    conn = function() return assert(support.connect(cluster[1].port)) end,
    stock = function(given)
        return resources.new("stock:7", function(...) return given.conn:call(...) end)
    end,
    owned = function(given)
        return resources.owned("stock:7", function(...) return given.conn:call(...) end)
    end,
    token = function(given)
        return select(2, assert(given.client:getFencedLock("stock"):tryLock(5)))
    end,
    world = function() return redlock.testing.new() end,
    my_loop = function() return { watch = function() end } end,
    print = function() return function() end end,
}

local function environment()
    return setmetatable({}, { __index = function(given, name)
        given[name] = GIVEN[name] and GIVEN[name](given) or _G[name]
        return rawget(given, name)
    end })
end

describe("in the reference", function()
    setup(function()
        cluster = support.cluster(3, { unnamed = true })
        sys.setenv("REDLOCK_NODES", table.concat(cluster:uris(), " "))
        local client = redlock.new { nodes = cluster:uris() }
        for class, object in pairs(reference.objects(client, redlock.testing.new())) do
            observe(class, object)
        end
        for _, module in ipairs { "redlock", "redlock.testing", "redlock." .. RESOURCE,
            "redlock.resty_lock", "redlock.metrics" } do
            observe(module, false)
        end
        -- Of locks of one's own alone, whose classes are made when an example asks for them.
        local inherited = require("redlock.lock.lock").methods
        replace(inherited, "ask", observed(inherited.ask,
            typing.methods(model, "redlock.Lock").ask))
    end)
    before_each(function()
        cluster:flush()
        events = {}
    end)
    teardown(function()
        for i = #undo, 1, -1 do
            undo[i]()
        end
    end)

    local function run(what, examples)
        for i, example in ipairs(examples) do
            it(("example %d of %s runs"):format(i, what), function()
                local given = environment()
                setfenv(assert(loadstring(example, "=" .. what)), given)()
                for _, e in ipairs(events) do
                    assert.is_true(typing.matches(model, e, "redlock.Event", e.type))
                end
                if rawget(given, "client") then
                    given.client:close()
                end
            end)
        end
    end

    for _, name in ipairs(model.order) do
        run(name, model[name].examples)
        for _, method in ipairs(model[name].methods) do
            run(name .. ":" .. method.name, method.examples)
        end
    end

    it("every method was called in an example, but for those that refer to another", function()
        local left = {}
        for _, name in ipairs(model.order) do
            for _, method in ipairs(model[name].methods) do
                local what = name .. ":" .. method.name
                -- What is in nginx alone is called there (nginx_status_spec).
                if not calls[what] and not method.as and name ~= "redlock.Box"
                    and not name:find "%.host%." and not name:find "^redlock%.[sS]tatus$" then
                    left[#left + 1] = what
                end
            end
        end
        assert.same({}, left)
    end)

    it("the codes of errors exist", function()
        local known = {}
        for _, value in ipairs(model["redlock.Code"].values) do
            known[value.type:match '"(.*)"'] = true
        end
        for _, name in ipairs(model.order) do
            for _, method in ipairs(model[name].methods) do
                for _, ret in ipairs(method.returns) do
                    if ret.type == "redlock.Error" or ret.type:find "OrError$" then
                        for code in pairs(codes_in(ret.text)) do
                            assert.is_true(known[code], name .. ":" .. method.name .. ": " .. code)
                        end
                    end
                end
            end
        end
    end)

    -- The fields that any row had; each row is checked by observe().
    local function gather(rows, fields)
        for _, row in ipairs(rows) do
            for field in pairs(row) do
                fields[field] = true
            end
        end
    end

    it("the rows of check() have all fields, and every state of the guard", function()
        local fields, states, verdicts = {}, {}, {}
        local function look(nodes, opts)
            local client = new_client { nodes = nodes, cluster = "spec",
                ca_file = opts and opts.ca_file, restart_guard = opts and opts.restart_guard,
                user = opts and opts.user, password = opts and opts.user and "pw" }
            local report = assert(client:check())
            gather(report, fields)
            for _, row in ipairs(report) do
                states[row.guard], verdicts[row.verdict] = true, true
            end
            client:close()
        end
        local function user(name, server, ...)
            server:user(name, "on", ">pw", "+@all", "&*", ...)
        end
        cluster.unnamed = false
        cluster:admit()
        local fresh = support.cluster(1, { new = true })[1]
        local down = support.server()
        down:kill()
        user("blind", cluster[1], "~*", "-info")
        user("blind", cluster[2], "~*", "-info")
        user("keyless", cluster[3], "~app:*")
        local certificates = support.certificates()
        look({ support.tls_server(certificates, "good").tls_uri },
            { ca_file = certificates .. "/ca.crt" })
        look { fresh.uri, down.uri, cluster[1].uri }
        look { support.cluster(1)[1].uri }
        look({ cluster[1].uri, cluster[2].uri, fresh.uri }, { user = "blind" })
        look({ cluster[3].uri, fresh.uri, cluster[1].uri }, { user = "keyless" })
        local frozen = support.cluster(1)[1]
        local client = new_client { nodes = { frozen.uri }, cluster = "spec" }
        support.eventually(function()          -- it may be given up, and is connected again
            assert(client:connect(20))
            frozen:freeze()
            gather(assert(client:check()), fields)
            frozen:thaw()
            return fields.stale
        end)
        client:close()
        cluster[3]:admit(30)
        look { cluster[3].uri, cluster[2].uri, cluster[1].uri }
        cluster.unnamed = true
        cluster:admit()
        local documented = {}
        for name in pairs(typing.fields(model, "redlock.Row")) do
            documented[name] = true
        end
        assert.same(documented, fields)
        for alias, seen in pairs { GuardState = states, Verdict = verdicts } do
            for _, value in ipairs(model["redlock." .. alias].values) do
                assert.is_true(seen[value.type:match '"(.*)"'], alias .. ": " .. value.type)
            end
        end
    end)

    it("stats() has all fields", function()
        local client = new_client()
        assert(client:getLock("a"):tryLock(5))
        for class, value in pairs { Stats = client:stats(), NodeStats = client:stats().nodes[1] } do
            for field in pairs(typing.fields(model, "redlock." .. class)) do
                assert.is_not_nil(value[field], class .. "." .. field)
            end
        end
        client:close()
    end)
end)
