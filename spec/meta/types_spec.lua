-- The reference (lua/redlock/types.lua) has what the code has, under the same names, and nothing
-- else.
local annotations = require "spec.support.annotations"
local redlock = require "redlock"
local loop = require "redlock.host.loop"
local reference = require "spec.support.reference"
local metrics = require "redlock.metrics"
local status = require "redlock.status"
local resty_lock = require "redlock.resty_lock"
local typing = require "spec.support.typing"

local RESOURCE, model = reference.RESOURCE, reference.model
local differences, keys_of = reference.differences, reference.keys_of

-- What can be reached, and is the library's own.
local INTERNAL = {
    ["redlock.Client"] = { "free_owner", "open", "scripts" },
    ["redlock.Lock"] = { "describe" },
    ["redlock.FencedLock"] = { "describe" },
    ["redlock.MultiLock"] = { "describe" },
    ["redlock.CountDownLatch"] = { "describe" },
    ["redlock.Permit"] = { "describe" },
    ["redlock.Semaphore"] = { "describe" },
    ["redlock.Future"] = { "finish", "finish_true" },
    ["redlock.Metrics"] = { "attach", "detach", "snapshot" },
    ["redlock.Host"] = { "accept", "attend", "begin_directly", "box", "cancel", "close",
        "concurrent", "enclose", "wait",
        "drop", "in_vain", "is_ending", "left", "let_go", "look_again", "look_within", "mortal",
        "nap", "open", "owners", "poll_at", "shares", "start", "taken", "took" },
}

-- ---- names on both sides -----------------------------------------------------------

local function assert_same(documented, real)
    assert.same({}, differences(documented, real))
end

local function with_internal(name, documented)
    local set = keys_of(documented)
    for _, internal in ipairs(INTERNAL[name] or {}) do
        assert.is_nil(set[internal], internal)
        set[internal] = true
    end
    return set
end

-- The functions that an object has from its class, and from those that this inherits from; not
-- those that hint at other names.
local function methods_of(object)
    local methods = {}
    local class = getmetatable(object).__index
    while class and class.__index do
        for name, fn in pairs(class) do
            if type(fn) == "function" and not name:find "^__" then
                methods[name] = methods[name] or fn
            end
        end
        class = getmetatable(class) and getmetatable(class).__index
    end
    return methods
end

-- A method without the check of its object that is put before it.
local function unchecked(fn)
    for i = 1, debug.getinfo(fn, "u").nups do
        local name, value = debug.getupvalue(fn, i)
        if name == "method" then
            return value
        end
    end
    return fn
end

-- The names of a function's parameters; colon: the first one is the object.
local function parameters(fn, colon)
    fn = unchecked(fn)
    local info, names = debug.getinfo(fn, "u"), {}
    for i = 1, info.nparams do
        names[i] = debug.getlocal(fn, i)
    end
    names[1] = colon and "self" or names[1]
    if info.isvararg then
        names[#names + 1] = "..."
    end
    return table.concat(names, ", ")
end

local client = redlock.new { nodes = "redis://127.0.0.1:1" }
local lock = client:getLock "x"
local resources = redlock[RESOURCE]

local world = redlock.testing.new { nodes = 1 }

local MODULES = {
    ["redlock"] = redlock,
    ["redlock.testing"] = redlock.testing,
    ["redlock." .. RESOURCE] = resources,
    ["redlock.host.loop"] = loop,
    ["redlock.metrics"] = metrics,
    ["redlock.status"] = status,
    ["redlock.resty_lock"] = resty_lock,
}
local OBJECTS = reference.objects(client, world)
OBJECTS["redlock.Status"] = status.new { metrics = { dict = {}, snapshot = print } }

describe("the reference of", function()
    for name, module in pairs(MODULES) do
        it("the module " .. name .. " has all of it", function()
            local documented = keys_of(typing.methods(model, name))
            for field in pairs(typing.fields(model, name)) do
                documented[field] = true
            end
            assert_same(documented, keys_of(module))
            assert.equal(module, require(name))
        end)
    end

    for name, object in pairs(OBJECTS) do
        it(name .. " has all methods", function()
            local documented = with_internal(name, typing.methods(model, name))
            assert_same(documented, keys_of(methods_of(object)))
        end)
    end

    it("every class with methods was looked at", function()
        -- That of nginx is looked at in its worker (nginx_reader_spec).
        local looked_at = { ["redlock.AnyResource"] = true, ["redlock.Box"] = true,
            ["redlock.Named"] = true, ["redlock.host.nginx"] = true }
        for name in pairs(MODULES) do
            looked_at[name] = true
        end
        for name in pairs(OBJECTS) do
            looked_at[name] = true
        end
        for _, name in ipairs(model.order) do
            assert.truthy(#model[name].methods == 0 or looked_at[name], name)
        end
    end)

    it("hosts has what they have", function()
        local needed = { name = "own" }
        for _, field in ipairs(model["redlock.LoopDefinition"].fields) do
            if not field.optional and field.name ~= "name" then
                needed[field.name] = function() end
            end
        end
        local made = loop.new(needed)
        assert.is_true(made.can_wait())
        for _, host in ipairs { made, require "redlock.host.plain", require "redlock.host.luv",
            require "redlock.host.cqueues" } do
            assert.is_string(host.name)
            for _, name in ipairs { "owner", "alive", "can_wait", "concurrent", "wait", "defer",
                "log" } do
                assert.is_function(host[name], host.name .. "." .. name)
            end
        end
        -- And what the library asks of them, or of their definitions.
        local documented = typing.fields(model, "redlock.LoopDefinition")
        for name, field in pairs(typing.fields(model, "redlock.Host")) do
            documented[name] = field
        end
        local used = reference.found("client%.host%.([%a_]+)", "self%.host%.([%a_]+)",
            '[^%w."]host%.([%a_]+)')
        used.name = true             -- for whoever looks at one
        assert_same(with_internal("redlock.Host", documented), used)
        local box = methods_of(made.box)
        for name in pairs(typing.methods(model, "redlock.Box")) do
            assert.is_function(box[name], name)
        end
    end)

    it("parameters has the names of the code", function()
        local function check(name, functions)
            for _, method in pairs(typing.methods(model, name)) do
                local args = table.concat(method.args, ", ")
                if method.colon then
                    args = #method.args == 0 and "self" or "self, " .. args
                end
                local real = parameters(functions[method.name], method.colon)
                assert.equal(real, args, method.of .. ":" .. method.name)
                local described = {}
                for i, param in ipairs(method.params) do
                    described[i] = param.name
                end
                assert.same(method.args, described, method.of .. ":" .. method.name)
            end
        end
        for name, module in pairs(MODULES) do
            check(name, module)
        end
        for name, object in pairs(OBJECTS) do
            check(name, methods_of(object))
        end
        check("redlock.Box", methods_of(loop.new({ name = "x" }).box))
    end)
end)

-- ---- options -----------------------------------------------------------------------

describe("the reference of options", function()
    -- What a call takes, as it says when it is given something else.
    local function known(fn)
        local _, err = pcall(fn, { no_such_option = 1 })
        local list = assert(err:match "unknown option 'no_such_option'; known are: (.*)$", err)
        local set = {}
        for name in list:gmatch "[%w_]+" do
            set[name] = true
        end
        return set
    end

    local URI = "redis://127.0.0.1:1"
    for name, take in pairs {
        ["redlock.Options"] = redlock.new,
        ["redlock.Node"] = function(o) redlock.new { nodes = { o } } end,
        ["redlock.LockOptions"] = function(o) client:getLock("x", o) end,
        ["redlock.UsingOptions"] = function(o) client:using("x", o, print) end,
        ["redlock.OnceOptions"] = function(o) client:once("x", 1, print, o) end,
        ["redlock.ImportOptions"] = function(o) client:import("x", o) end,
        ["redlock.MetricsOptions"] = metrics.new,
        ["redlock.StatusOptions"] = status.new,
        ["redlock.InitOptions"] = function(o) client:init(o) end,
        ["redlock.UnlockOptions"] = function(o) lock:unlock(o) end,
        ["redlock.PrimitiveDefinition"] = redlock.primitive,
        ["redlock.WorldOptions"] = redlock.testing.new,
        ["redlock.StartOptions"] = function(o) world:start(1, o) end,
        ["redlock.ResourceOptions"] = function(o) resources.new("x", nil, o) end,
    } do
        it(name .. " has them all", function()
            assert_same(with_internal(name, typing.fields(model, name)), known(take))
        end)
    end

    it("and the page of the options are what `make types` writes", function()
        for _, file in ipairs(require "spec.docs.types".texts()) do
            assert.equal(file[3], file[2], file[1])
        end
    end)

    it("has the defaults, and types that they are of", function()
        for name, default in pairs(reference.inside "options".defaults) do
            local field = typing.fields(model, "redlock.Options")[name]
            local as_text = type(default) == "string" and ("%q"):format(default)
                or tostring(default)
            assert.equal(as_text, field.text:match "%(default (.-)%)$", name)
            assert.is_true(typing.matches(model, default, field.type), name)
            assert.is_true(field.optional, name)
        end
        assert.truthy(redlock.new { nodes = URI })
    end)
end)

-- ---- what is said of them ------------------------------------------------------------

describe("the reference", function()
    local function each(fn)
        for _, name in ipairs(model.order) do
            for _, method in ipairs(model[name].methods) do
                fn(("%s:%s"):format(name, method.name), method)
            end
        end
    end

    it("has an example for each function, or refers to one that has", function()
        each(function(what, method)
            local out = method.as and method or nil
            local full = typing.methods(model, method.of, out)[method.as or method.name]
            assert.is_true(full ~= nil and #full.examples > 0, what)
        end)
    end)

    it("says what each function does, takes and returns", function()
        each(function(what, method)
            assert.matches("%.$", method.text, what)
            assert.is_true(#method.returns > 0, what)
            for _, param in ipairs(method.params) do
                assert.is_true(#param.text > 0, what .. ": " .. param.name)
            end
        end)
    end)

    it("gives the units of numbers", function()
        local function check(what, field)
            if (" " .. field.type:gsub("%p", " ") .. " "):find " number "
                and not field.type:find "string" then
                assert.truthy(field.text:find "second" or field.text:find "no unit",
                    ("%s: %s: %s"):format(what, field.name, field.text))
            end
        end
        each(function(what, method)
            for _, list in ipairs { method.as and {} or method.params, method.returns } do
                for _, field in ipairs(list) do
                    check(what, field)
                end
            end
        end)
        for _, name in ipairs(model.order) do
            for _, field in ipairs(model[name].fields) do
                check(name, field)
            end
        end
    end)

    it("knows every type that it names", function()
        local function check(what, t)
            for name in t:gmatch "redlock%.[%w_.]+" do
                assert.truthy(model[name], what .. ": " .. name)
            end
        end
        for _, name in ipairs(model.order) do
            local item = model[name]
            check(name, table.concat(item.parents or {}, " "))
            for _, list in ipairs { item.fields, item.values } do
                for _, field in ipairs(list) do
                    check(name, field.type)
                end
            end
        end
        each(function(what, method)
            for _, list in ipairs { method.params, method.returns } do
                for _, field in ipairs(list) do
                    check(what, field.type)
                end
            end
        end)
    end)

    it("does nothing to whoever loads it", function()
        local before = keys_of(_G)
        for _, file in ipairs(annotations.files) do
            assert(loadfile(file))()
        end
        assert.same(before, keys_of(_G))
        assert.is_table(require "redlock.types")
        assert.equal(redlock, require "redlock")
        assert.is_not.equal(redlock, require "redlock.types")
    end)
end)
