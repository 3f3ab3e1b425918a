-- Finds who touches a lease, a round or a watch that was given back. The core may have freed
-- it by then; mostly it is in a pool, and nothing shows.
local ffi = require "ffi"
local ffi_core = require "redlock.runtime.ffi"

local _M = {}

local GIVES_BACK = { rl_round_free = true, rl_lease_free = true, rl_unsubscribe = true }
-- Those give back a round, if the result is at least so much; the second its lease as well.
local MAY_GIVE_BACK = { rl_round_won = 1, rl_release_done = 0 }
-- Which argument is the place for a lease that is made.
local MAKES = { rl_acquire = 12, rl_import = 12 }
local KINDS = { "rl_lease *", "rl_round *", "rl_subscription *" }

local function address(value)
    for i = 1, #KINDS do
        if ffi.istype(KINDS[i], value) then
            return tonumber(ffi.cast("intptr_t", value))
        end
    end
end

--- From now on who does so gets an error, also in pcall; before the core is used.
-- @return a list to which each is added, as text
function _M.watch()
    local touched, handles, wrapped = {}, {}, {}     -- handles: of an address, how many
    local lease_of = {}                              -- by the round that releases it
    local C = ffi_core.load()
    local function check(name, ...)
        for i = 1, select("#", ...) do
            local at = address((select(i, ...)))
            if at and handles[at] == 0 then
                touched[#touched + 1] = debug.traceback(name .. "() of what was given back", 3)
                error(touched[#touched], 3)
            end
        end
    end
    local function count(at, by)
        handles[at] = math.max((handles[at] or 0) + by, 0)
    end
    local function wrap(name, fn)
        return function(...)
            check(name, ...)
            local at = GIVES_BACK[name] and address((...))
            if at then
                count(at, -1)
            end
            local result = fn(...)
            if MAY_GIVE_BACK[name] and result >= MAY_GIVE_BACK[name] then
                local round = address((...))
                count(round, -1)
                if name == "rl_release_done" and lease_of[round] then
                    count(lease_of[round], -1)
                end
            elseif name == "rl_release" and result ~= nil then
                lease_of[address(result)] = address((...))
            end
            local made = MAKES[name] and select(MAKES[name], ...)
            if made and made[0] ~= nil then
                count(address(made[0]), 1)
            end
            at = name ~= "rl_next" and address(result)       -- that gives what is there already
            if at then
                count(at, 1)
            end
            return result
        end
    end
    local proxy = setmetatable({}, { __index = function(_, name)
        local value = C[name]
        if type(value) ~= "cdata" then
            return value
        end
        wrapped[name] = wrapped[name] or wrap(name, value)
        return wrapped[name]
    end })
    ffi_core.load = function() return proxy end
    return touched
end

return _M
