--- redlock: distributed locks on N independent Redis servers.
--
--     local redlock = require "redlock"
--     local client = redlock.new { nodes = { "redis://10.0.0.1", "redis://10.0.0.2",
--                                            "redis://10.0.0.3" } }
--     local ok, err = client:getLock("invoice:42"):tryLock(5, 10)

local client = require "redlock.client.client"
local errors = require "redlock.runtime.errors"
local future = require "redlock.lock.future"
local lazy = require "redlock.runtime.lazy"
local primitive = require "redlock.kinds.primitive"

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
-- A script is a text, or a list of names as of modules, whose files are read and joined: the first
-- ones declare what the last one uses. It must compile when it is defined. It gets KEYS =
-- keys(client, name), by default { prefix .. name }, 1 to 128 strings, and ARGV = the attempt's
-- value (40 characters), the lease in ms, [the number or token,] args(lock, wait)..., at most 16
-- strings; peek and force get ARGV = args(lock, wait)... The number or token is there unless the
-- rule is "yes"; "0" while there is none. A script returns an integer, its vote, or an array of the
-- vote, an integer (info) and a string of 256 bytes at most (data):
--   acquire   1: taken; 2: it was taken with this value already (must not take it twice);
--             0, {0, ms} or {0, ms, who}: refused, for so long, by whom: waiters who are woken
--             again and again and find the same holder listen less. One atomic step: all keys
--             or none.
--   extend    1: ours until now + lease at least; 0: gone; -1: somebody else's.
--             Never shortens, never takes anew. Without it: extend() is unsupported.
--   heal      Gives the keys back to a server that lost them. Its answer is no vote. Default:
--             acquire.
--   handover  ARGV = the next holder's value, the lease in ms, [the number or token,] the value it
--             takes the place of, args(lock, wait)...; 1: replaced; 2: it was before; 0: gone;
--             -1: somebody else's.
--             Never takes what is free. Without it: a release, and a new attempt.
--   release   1: let go; 0: it was gone; -1: somebody else's. May run more than once. A
--             lease of 0: an attempt that kept nobody out, of which waiters need not be told.
--             With `shared` that is advice: minorities of several attempts may keep somebody out
--             together.
--   settle    ARGV = as of extend. 1: what is there stays for so many ms from now, be that more or
--             less than before; 0: gone; -1: somebody else's. For settle() and closed_for.
--   confirm   only with vote = "largest", see there.
--   peek      {1, ms left, who}: somebody has it; 0: nobody. For isLocked and
--             remainTimeToLive.
--   force     1: removed; 0: there was nothing. For forceUnlock.
--   asks      { NAME = { script, guarded = true }, ... }: further questions, for
--             lock:ask(NAME, args); ARGV = args. With `guarded`, for questions that write, servers
--             that may have forgotten something are not asked, and the vote is -1 to 2.
--
-- vote: which grants of acquire and handover make a majority:
--   "yes"      all, 1 and 2.
--   "same"     those that name the same number, {1, n} or {2, n}, n > 0: one of several places,
--              each of which is a lock of its own. All later scripts get the number, and heal must
--              take that one; extend says 0 where the value has another one, and drops that.
--   "largest"  fencing tokens. {1, counter} or {2, counter}, the server's counter of grants, which
--              acquire and handover raise by one in the same step. The token is the largest, when a
--              majority has exactly that: where it is not so, confirm is asked to make the counter
--              the token: 1: still ours, and done; {0, counter}: ours, but past it; -1: not ours.
--              lock() and tryLock() return true and the token. A counter that is lost starts anew:
--              what makes tokens grow when servers forget is a fenced lock's, getFencedLock.
-- shared: several owners hold it at once; no owner of this process waits for another one, no hold
-- passes from one to another. line = false: the owners of this process do not queue up for it,
-- each asks the servers by itself.
--
-- Functions of a call that waits get its `wait`: a table with n (failed attempts so far), left
-- (seconds that it waits still; nil: no end), id (16 random hex digits), and what they put there
-- themselves. They must not wait for anything.
--   args(lock, wait)              further ARGV, asked for at each attempt; questions have a wait
--                                 of their own
--   channel(client, name, wait)   where releases are announced
--   refused(lock, wait, answers)  after an attempt that failed; may return an error's code, with
--                                 which the call ends. answers: { { node (a number), vote, info,
--                                 data }, ... } of the servers that answered
--   granted(lock, hold, answers)  before anybody knows of the hold. hold.agreed: the number or
--                                 token; hold.data: a table of the primitive's own
--   gave_up(lock, wait)           when a call whose attempts failed ends without it, once; when its
--                                 coroutine is killed, only with line = false
--   reenter(lock, hold)           the owner has it and wants it again: true, or nil and a code.
--                                 hold.count: how often it was entered. Default: true
--
-- Majorities share a single server, so it is sound only if two holds that must not be there
-- together conflict on every server: a server that has granted one refuses the other. Counting
-- up to a limit on each server does not do that; places, with vote = "same", do.
-- Everything a script writes must end by itself after the lease (PX, PEXPIRE), but for what
-- settle leaves. Servers forget: for max_lease those that did are kept from voting on acquire, and
-- from heal and guarded questions; what lasts longer must be written back by whoever reads it.
-- Waiters are woken by messages on channel(client, name, wait), which release and force should
-- PUBLISH when they let go; without it they ask from time to time.
--
-- @param def  name (not that of a lock of the library's own), acquire, release, and if wanted the
--   other scripts, asks, vote, shared, line, the functions, methods (a table of further methods)
-- @return the primitive, for client:get(primitive, name, opts)
function _M.primitive(def)
    return primitive.define(def)
end

--- Waits for all futures of a list.
-- @param timeout  seconds; default: as long as it takes
-- @return true when all are done, false otherwise; or nil and an error: phase
_M.wait_all = future.wait_all

--- @return whether a value is an error object of this library
_M.is_error = errors.is_error

-- Loaded when they are asked for: resources in Redis that refuse late writers (resource.lua), and
-- worlds for specs of programs (testing/init.lua).
local PARTS = { resource = lazy.loader "redlock.resource",
    testing = function() return require "redlock.testing" end }

return setmetatable(_M, { __index = function(_, name)
    _M[name] = PARTS[name] and PARTS[name]()
    return rawget(_M, name)
end })
