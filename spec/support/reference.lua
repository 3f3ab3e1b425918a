-- What the specs of the reference (lua/redlock/types.lua) share: it, the code, and how the two are
-- compared.
local annotations = require "spec.support.annotations"
local redlock = require "redlock"
local sys = require "spec.support.sys"

local _M = {}

_M.RESOURCE = "resource"            -- the module for resources: redlock.resource

_M.model = annotations.read()

--- An object of each class that needs no server: class -> object.
-- @param client  of redlock.new
-- @param world   of redlock.testing
function _M.objects(client, world)
    local lock, resources = client:getLock "x", redlock[_M.RESOURCE]
    return {
        ["redlock.Client"] = client,
        ["redlock.Lock"] = lock,
        ["redlock.FencedLock"] = client:getFencedLock "x",
        ["redlock.MultiLock"] = client:getMultiLock { "x", "y" },
        ["redlock.Semaphore"] = client:getSemaphore("x", 2),
        ["redlock.Permit"] = require("redlock.kinds.semaphore").permit_of {
            client = client, name = "x", permits = 2 },
        ["redlock.CountDownLatch"] = client:getCountDownLatch "x",
        ["redlock.Election"] = client:getElection("x", { id = "a" }),
        ["redlock.RateLimiter"] = client:getRateLimiter("x", 2, 60),
        ["redlock.ReadWriteLock"] = client:getReadWriteLock "x",
        ["redlock.Future"] = lock:unlockAsync(),
        ["redlock.Resource"] = resources.new "x",
        ["redlock.OwnedResource"] = resources.owned "x",
        ["redlock.Metrics"] = require("redlock.metrics").new(),
        ["redlock.RestyLock"] = require("redlock.resty_lock"):new(client),
        ["redlock.World"] = world,
        ["redlock.Task"] = world:spawn(function() end),
    }
end

-- ---- sets of names -----------------------------------------------------------------

function _M.keys_of(t)
    local set = {}
    for key in pairs(t) do
        set[key] = true
    end
    return set
end

-- The words that a type consists of.
function _M.values_of(alias)
    local set = {}
    for _, value in ipairs(_M.model[alias].values) do
        set[value.type:match '^"(.*)"$'] = true
    end
    return set
end

-- A list of what only one of the two sets has.
function _M.differences(documented, real)
    local list = {}
    for name in pairs(real) do
        if not documented[name] then
            list[#list + 1] = name .. " is not in the reference"
        end
    end
    for name in pairs(documented) do
        if not real[name] then
            list[#list + 1] = name .. " is in the reference only"
        end
    end
    table.sort(list)
    return list
end

-- ---- the code ----------------------------------------------------------------------

-- A module of the library, wherever it is.
function _M.inside(name)
    for path, module in pairs(package.loaded) do
        if path:find "^redlock%." and path:match "[^.]+$" == name then
            return module
        end
    end
    error("there is no module " .. name)
end

-- The texts of all files of the library but those of the reference.
_M.sources = {}
for path in io.popen "find lua/redlock -name '*.lua' ! -path '*/types*'":lines() do
    _M.sources[#_M.sources + 1] = sys.read_file(path)
end

-- What patterns find in them.
function _M.found(...)
    local set = {}
    for _, text in ipairs(_M.sources) do
        for _, pattern in ipairs { ... } do
            for word in text:gmatch(pattern) do
                set[word] = true
            end
        end
    end
    return set
end

-- The value of the first upvalue that fits, of a function or of those that it calls.
function _M.upvalue(fn, fits, seen)
    seen = seen or {}
    seen[fn] = true
    for i = 1, debug.getinfo(fn, "u").nups do
        local _, value = debug.getupvalue(fn, i)
        if fits(value) then
            return value
        elseif type(value) == "function" and not seen[value] then
            local inner = _M.upvalue(value, fits, seen)
            if inner then
                return inner
            end
        end
    end
end

return _M
