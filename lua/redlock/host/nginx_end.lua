--- Notices the end of nginx requests, whatever ended them, by a cleanup in each. The collector
-- would find their owners later; or never, if something else still refers to them.
local ffi = require "ffi"
local ffi_core = require "redlock.runtime.ffi"

local pairs, pcall, setmetatable, tonumber = pairs, pcall, setmetatable, tonumber
local cast = ffi.cast

local _M = {}

-- From ngx_http_request.h of nginx, the same since 0.7, and of stream-lua-nginx-module alike; under
-- our own name, as other modules may declare it otherwise.
ffi.cdef(([[
    void *redlock_ngx_cleanup_add(void *request, size_t size) __asm__("%s_cleanup_add");
]]):format(ngx.config.subsystem == "http" and "ngx_http" or "ngx_stream_lua"))
local CLEANUP = ffi.typeof "struct { void (*handler)(void *); void *data; void *next; } *"

local C, done                 -- done: false: this nginx has no such function
local owners = {}             -- address of a request -> the set of its owners
local counts = {}             -- address -> { C's counter of its holds, until it has ended }
local mailbox                 -- function(): rings when a request ends with holds

--- Sets the mailbox to ring; nil: the loop looks by itself.
function _M.ring(fn)
    mailbox = fn
end

local function open()
    C = ffi_core.load()
    local found = pcall(function() return ffi.C.redlock_ngx_cleanup_add end)
    local list = found and C.rl_cleanups_open(mailbox())
    done = list and list ~= nil and ffi.gc(list, C.rl_cleanups_close) or false
end

--- Calls fn(owner) for the owners of requests that ended since the last call.
function _M.each(fn)
    local at = done and tonumber(C.rl_cleanups_take(done)) or 0
    while at ~= 0 do
        local gone = owners[at]
        owners[at], counts[at][1], counts[at] = nil, nil, nil
        for owner in pairs(gone) do
            fn(owner)
        end
        at = tonumber(C.rl_cleanups_take(done))
    end
end

-- @return whether its end will be noticed; else only the collector finds it
local function add_cleanup(request, at)
    local cleanup = cast(CLEANUP, ffi.C.redlock_ngx_cleanup_add(request, 0))
    local added = cleanup ~= nil and C.rl_cleanups_add(done, at)
    if not added or added == nil then
        return false
    end
    cleanup.data, cleanup.handler = added, C.rl_cleanup_done
    counts[at] = { added }
    return true
end

--- Ties an owner, kept weakly, to a running request: it ends with that. Calls each(fn) first, as
-- the request's address may have been another's.
-- @return for count(); or nil
function _M.await(request, owner, fn)
    if done == nil then
        open()
    end
    _M.each(fn)
    local at = tonumber(cast("uintptr_t", request))
    if done and (owners[at] or add_cleanup(request, at)) then
        owners[at] = owners[at] or setmetatable({}, { __mode = "k" })
        owners[at][owner] = true
        return counts[at]
    end
end

--- Adds 1 or -1 to the number of a request's holds, as of await(). lease: of one more, which was
-- another's if it was passed on; count nil: it is no request's.
function _M.count(count, more, lease)
    local held = count and count[1]
    if held then
        held[0] = held[0] + more
    end
    if lease and done then
        C.rl_cleanups_own(held or nil, lease)
    end
end

return _M
