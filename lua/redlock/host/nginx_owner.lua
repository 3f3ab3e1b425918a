--- Who owns what in nginx: the request.
--
-- Its light threads share it, and it survives phases. Not the coroutine: the module uses one
-- thread object for many requests. Nothing tells of a request's end but the collector, which
-- finds that nobody has its token any more.

local ffi = require "ffi"
local get_request = require "resty.core.base".get_request

local getmetatable, newproxy, pcall, rawget, rawset, setmetatable, tonumber =
    getmetatable, newproxy, pcall, rawget, rawset, setmetatable, tonumber
local getfenv, setfenv = debug.getfenv, debug.setfenv
local ngx = ngx

local _M = {}

-- A token is in the request's ngx.ctx, under this key.
local TOKEN = {}
local NO_REQUEST = {}

-- Tokens have what a table has not, a finalizer.
local SENTINEL = newproxy(true)

--- From now on at_end(owner) is called when an owner is gone, by the collector: it must not
-- wait, and nothing in it may fail.
function _M.tell(at_end)
    getmetatable(SENTINEL).__gc = function(sentinel)
        local token = getfenv(sentinel)
        if token.sentinel == sentinel then
            at_end(token)
        end
    end
end

-- ngx.exec empties ngx.ctx; the request is found again by its address and numbers.
local by_address = setmetatable({}, { __mode = "v" })

local function numbers()
    return tonumber(ffi.cast("intptr_t", get_request())), ngx.var.connection,
        ngx.var.connection_requests
end

local function new_token()
    local ok, address, connection, request = pcall(numbers)
    local token = ok and by_address[address]
    if token and token.connection == connection and token.request == request then
        return token
    end
    token = { sentinel = newproxy(SENTINEL) }
    setfenv(token.sentinel, token)
    if ok then                -- else a timer's run, or a TLS handshake
        token.connection, token.request = connection, request
        by_address[address] = token
    end
    return token
end

--- @return the token of the running request, timer or handshake; one for all where there is
--   none
function _M.owner()
    if not get_request() then
        return NO_REQUEST
    end
    local ctx = ngx.ctx
    local token = rawget(ctx, TOKEN)     -- a handshake's is inherited by its requests
    if not token then
        token = new_token()
        rawset(ctx, TOKEN, token)
    end
    return token
end

return _M
