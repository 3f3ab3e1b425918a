--- Finalizers of the library's cdata, and the end of the Lua state.
--
-- When a state closes, LuaJIT finalizes all cdata in any order, and then all userdata, though all
-- of it is still reachable. Finalizers of the program's own objects may call the library at any
-- time. Once the first of ours has run, they find all clients closed. Handles that they give back
-- before that keep their finalizers, as ffi.gc() no longer works.
--
-- LuaJIT before August 2023 never leaves a compiled loop by pairs() that is entered in a finalizer
-- (its issue 1045). So functions that finalizers may call use another name for pairs, from which it
-- compiles other instructions, or next().

local ffi = require "ffi"
local load = require("redlock.runtime.ffi").load

local ipairs, next, setmetatable = ipairs, next, setmetatable
local running = coroutine.running
local cast, gc, new = ffi.cast, ffi.gc, ffi.new

local _M = {}

local clients = setmetatable({}, { __mode = "k" })     -- client -> its close function
local closing = false

-- ffi.gc() sets a bit in a byte at this offset from a cdata, except in a state that closes.
-- (Two layouts: with pointers of 64 and of 32 bits.)
local MARKS = { -8, -4 }

local function nothing()
end

local function sets_mark(at)
    local probe = new "char[1]"
    local header = cast("const volatile uint8_t *", probe)
    local before = header[at]
    gc(probe, nothing)
    local is_set = header[at] ~= before
    gc(probe, nil)
    return is_set
end
if jit then
    jit.off(sets_mark)
end

local mark
for _, at in ipairs(MARKS) do
    mark = mark or sets_mark(at) and at
end

-- No loop by pairs(): see Box:note_end.
local function end_all()
    closing = true
    local client, close = next(clients)
    while client do
        clients[client] = nil
        close(client, mark ~= nil)
        client, close = next(clients)
    end
end

-- Whether the state closes; if so, ends all clients first.
local function state_closes()
    if not closing and mark and not sets_mark(mark) then
        end_all()
    end
    return closing
end

--- Whether the caller is a finalizer in a state that closes, which runs outside of all
-- coroutines. For hosts: their event loop no longer exists then.
function _M.are_last()
    local co, is_main = running()
    return (not co or is_main) and state_closes()
end

--- A finalizer for handles that a core has given. In a state that closes it does nothing: clients
-- have given back what they hold, and their cores are closed.
function _M.for_handle(fn)
    return function(handle)
        if not state_closes() then
            fn(handle)
        end
    end
end

--- A finalizer for cores: calls fn(core) unless the core was given back.
function _M.for_core(fn)
    return function(core)
        if not state_closes() or load().rl_known(core) ~= 0 then
            fn(core)
        end
    end
end

--- A finalizer for an object that lives as long as the state.
function _M.last(fn)
    return function(object)
        state_closes()
        fn(object)
    end
end

--- Has close(client, is_first) called when the state closes. is_first: no finalizer of the library
-- has run, so the core may be called.
function _M.join(client, close)
    if state_closes() then
        close(client)
    else
        clients[client] = close
    end
end

-- Notices the end of the state also without handles, as of clients that were never used.
_M.sentinel = gc(new "char[1]", _M.last(nothing))

return _M
