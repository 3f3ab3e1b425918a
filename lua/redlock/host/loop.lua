--- What the hosts of event loops have in common: a coroutine that waits is suspended, and
-- the loop wakes it when its round is done.
--
-- The core's thread puts rounds that are done into a mailbox, and rings a descriptor. The
-- loop polls that; the rest is here. A host of your own is a table for new():
--
--   name             a word
--   suspend(waiter)  suspends the running coroutine until wake(waiter). It may return
--                    early; it is called again then. The waiter is yours to write into, and
--                    is used again: it must not refer to the coroutine any more, which could
--                    not be collected when it has ended, and would keep its locks.
--   wake(waiter)     makes suspend return; may be called before it
--   listen(box)      somebody waits: from now on box:drain() is to be called whenever the
--                    descriptor box:fd() can be read, until it returns 0: nobody waits any
--                    more, and the loop may forget it. Called again for the next waiter.
-- and if the defaults do not fit:
--   owner()          who is asking: the key of an ownership, compared by identity, and
--                    kept weakly. Default: the running coroutine
--   alive(owner)     whether that owner can still ask. Default: its coroutine is not dead
--   can_wait()       whether the caller may be suspended now; lock() answers `phase` when
--                    not, and unlock() does not wait. Default: always
--   spawn(fn)        runs fn in a coroutine that may be suspended. Default: a new one
--   defer(fn)        the same, soon, for the user's callbacks. Default: spawn
--   remind(s, fn)    calls fn() after so many seconds, and must not keep the loop running for
--                    that. Default: never; what an owner held that has ended is let go by the
--                    next call into the library, not by itself
--   log(text)        of what fails. Default: to stderr
--   warn(text)       told what becomes of servers, unless the user listens (on_event).
--                    Default: nobody is
-- See examples/own_loop.lua for one, and host/luv.lua.

local boxes = require "redlock.host.box"
local cores = require "redlock.runtime.cores"
local errors = require "redlock.runtime.errors"
local no_wait = require "redlock.runtime.no_wait"
local validate = require "redlock.runtime.validate"

local assert, pairs, pcall, type = assert, pairs, pcall, type
local huge = math.huge
local running, status, create, resume =
    coroutine.running, coroutine.status, coroutine.create, coroutine.resume

local _M = {}

local MAIN = {}

-- A waiter who was killed while he slept is found when he is woken, where that happens at all: he
-- must not keep his place in line, which others may want, for as long as he would have waited.
local NAP = 5

local function owner()
    local co, is_main = running()
    if not co or is_main then
        return MAIN
    end
    return co
end

local function alive(who)
    return type(who) ~= "thread" or status(who) ~= "dead"
end

local function always()
    return true
end

local function spawn(fn)
    assert(resume(create(fn)))
end

local function log(text)
    io.stderr:write("redlock: ", text, "\n")
end

-- ---- what the library asks of it: see plain.lua ----------------------------------------

local function accept(opts)
    if opts.signals then
        validate.bad("option signals", "for plain hosts only; an event loop has its own way to "
            .. "hear of signals")
    end
end

-- The core's thread looks by itself.
local function poll_at()
    return huge
end

-- Clients, which share their cores.
local function add_clients(host, box)
    function host.open(client, settings, nodes, key)
        local core, why = cores.share(key(), settings, nodes, #client.options.nodes)
        box.clients[client] = core and true
        return core, why
    end

    function host.close(client)
        box.clients[client] = nil
        cores.leave(client.core)
    end
end

-- Futures: coroutines of the loop.
local function add_futures(host, box)
    function host.start(future, body)
        future.sleepers = {}
        future.client:open()     -- the loop may start it later than somebody waits for it
        local can_spawn = pcall(host.spawn, function()
            if future.done then      -- cancelled before
                return
            end
            future.begun = true
            box:begin_task(future)
            body()
            box:end_task()
        end)
        if not can_spawn then
            future:settle(true, nil, errors.new("phase", "a future"))
        end
    end

    function host.cancel(future)
        if future.begun then
            box:cancel(future, future.cancelled)
        else
            future:settle(false, future.cancelled)
        end
    end
end

-- Holds, whose owners may end unnoticed.
local function add_holds(host, box)
    local taken = host.taken

    function host.took(hold, who, seconds)
        if taken then
            taken(hold, who)
        end
        if host.mortal then      -- his death is to be noticed, also if he never waited
            box:attend()
        elseif host.remind then
            box:patrol(seconds)
        end
    end

    -- For finalizers: what an owner holds is released with the next turn of the loop, or let_go().
    function host.drop(who)
        box:note_end(who)
        box:look_again()
    end

    function host.let_go()
        box:let_go()
    end

    function host.look_within(seconds)
        if host.remind then
            box:patrol(seconds)
        end
    end

    function host.attend()
        box:attend()
    end

    function host.look_again()
        box:look_again()
    end
end

--- Makes a host of an event loop; see above.
-- @return the host, for `host` of redlock.new
function _M.new(def)
    local host = {}
    for key, value in pairs(def) do
        host[key] = value
    end
    host.owner = host.owner or owner
    host.alive = host.alive or alive
    local can_wait = host.can_wait or always
    function host.can_wait()
        return not no_wait.applies() and can_wait()
    end
    host.spawn = host.spawn or spawn
    host.defer = host.defer or host.spawn
    host.log = host.log or log
    host.nap = host.mortal and NAP or huge
    host.accept, host.poll_at = accept, poll_at
    local box = boxes.new(host)
    host.box = box
    function host.wait(round, vanish, a, b)
        return box:wait(round, vanish, a, b)
    end
    host.concurrent = always
    add_clients(host, box)
    add_futures(host, box)
    add_holds(host, box)
    return host
end

return _M
