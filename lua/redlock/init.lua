--- redlock: distributed locks on N independent Redis servers.
--
--     local redlock = require "redlock"
--     local client = redlock.new { nodes = { "redis://10.0.0.1", "redis://10.0.0.2",
--                                            "redis://10.0.0.3" } }
--     local ok, err = client:getLock("invoice:42"):tryLock(5, 10)

local client = require "redlock.api.client"
local errors = require "redlock.core.errors"
local future = require "redlock.api.future"
local resource = require "redlock.resource"
local primitive = require "redlock.api.primitive"

local _M = { _VERSION = "0.1.0~dev" }

--- A client of N servers. Opens nothing: connections are made at first use, in each
-- process of its own.
-- @param opts  nodes: a list of 1 to 32 addresses, each a URI
--   (redis://[user[:password]@]host[:port][/db], valkey://..., with TLS rediss://...,
--   valkeys://..., unix:///path[?db=n]) or a table of host, port, path, user, password,
--   password_file, password_env, db, tls, server_name; and the options of options.lua
-- @return a client (see client.lua). Raises on bad options, naming them.
function _M.new(opts)
    return client.new(opts)
end

--- Defines a primitive: a kind of lock of your own.
--
-- Each script gets KEYS = keys(client, name), by default { prefix .. name }, 1 to 16 strings,
-- and ARGV = the attempt's value (40 characters), the lease in ms, args(lock)..., at most 16
-- strings; peek and force get ARGV = args(lock)... It returns an integer, its vote, or an
-- array of the vote, an integer and a string:
--   acquire   1: taken; 2: it was taken with this value already (must not take it twice);
--             0, {0, ms} or {0, ms, who}: refused, for so long, by whom: waiters who are woken
--             again and again and find the same holder listen less. One atomic step: all keys
--             or none.
--   extend    1: ours until now + lease at least; 0: gone; -1: somebody else's.
--             Never shortens, never takes anew. Without it: extend() is unsupported.
--   handover  ARGV = the next holder's value, the lease in ms, the value it takes the place
--             of, args(lock)...; 1: replaced; 2: it was before; 0: gone; -1: somebody else's.
--             Never takes what is free. Without it: a release, and a new attempt.
--   release   1: let go; 0: it was gone; -1: somebody else's. May run more than once. A
--             lease of 0: an attempt that kept nobody out, of which waiters need not be told.
--   peek      {1, ms left, who}: somebody has it; 0: nobody. For isLocked and
--             remainTimeToLive.
--   force     1: removed; 0: there was nothing. For forceUnlock.
-- Majorities share a single server, so it is sound only if two holds that must not be there
-- together conflict on every server: a server that has granted one refuses the other. Counting
-- up to a limit on each server does not do that.
-- Everything a script writes must end by itself after the lease (PX, PEXPIRE). Waiters are
-- woken by messages on channel(client, name), which release and force should PUBLISH when
-- they let go; without it they ask from time to time.
--
-- @param def  name (not that of a lock of the library's own), acquire, release, and if wanted
--   extend, handover, peek, force (texts of scripts), keys, args, channel (functions), methods
--   (a table of further methods)
-- @return the primitive, for client:get(primitive, name, opts)
function _M.primitive(def)
    return primitive.define(def)
end

--- Waits for all futures of a list.
-- @param timeout  seconds; default: as long as it takes
-- @return true when all are done, false otherwise; or nil and an error: phase
_M.wait_all = future.wait_all

--- Resources in Redis that refuse late writers (see resource.lua).
_M.resource = resource

--- @return whether a value is an error object of this library
_M.is_error = errors.is_error

return _M
