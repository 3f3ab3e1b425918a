--- What hosts of event loops share: a waiting coroutine is suspended, and the loop wakes it when
-- its round is done.
--
-- The loop polls the descriptor of a mailbox, and so turns the cores of its clients, which put
-- finished rounds into the mailbox. redlock.LoopDefinition (types/) documents what new() takes.
-- Besides:
--   suspend(waiter)  is called again if it returned early. The waiter is the host's to write into,
--                    and is reused: it must not keep a reference to the coroutine, which could not
--                    be collected after its end, and would keep its locks.
--   listen(box, w)   the loop may stop polling once box:drain() returns 0: nobody waits. The next
--                    waiter calls listen again. w, if given, is suspended next.
--   owner(holds, id, within)  who asks for a lock of a client with these holds (nginx_owner.lua);
--                    compared by identity, and kept weakly
--   can_wait()       false: lock() answers `phase`, and unlock() does not wait
--   remind(s, fn)    must not keep the loop running. Default: none; then the next call into the
--                    library releases what an ended owner held
-- See examples/own_loop.lua and host/luv.lua.

local boxes = require "redlock.host.box"
local cores = require "redlock.runtime.cores"
local errors = require "redlock.runtime.errors"
local no_wait = require "redlock.runtime.no_wait"
local plain = require "redlock.host.plain"
local validate = require "redlock.runtime.validate"

local assert, ipairs, pairs, pcall = assert, ipairs, pairs, pcall
local huge = math.huge
local create, resume, running = coroutine.create, coroutine.resume, coroutine.running

local _M = {}

-- A waiter killed in its sleep is noticed only when it is woken, if at all. Sleeps are this short
-- (seconds) so that it does not keep its place in the local queue for its whole wait.
local NAP = 5

local function always()
    return true
end

local function spawn(fn)
    assert(resume(create(fn)))
end

-- ---- what the library asks of a host: see plain.lua ------------------------------------

local function accept(opts)
    if opts.signals then
        validate.bad("option signals", "for plain hosts only; an event loop has its own way to "
            .. "hear of signals")
    end
end

-- The loop polls, or the core's thread.
local function poll_at()
    return huge
end

-- Clients, which share cores.
local function add_clients(host, box)
    function host.open(client, settings, nodes)
        if not box:is_ready() then
            return nil, "out of memory"
        end
        local core, why = cores.share(settings, nodes, client.meter, box.mailbox)
        box.clients[client] = core and true
        return core, why
    end

    function host.close(client)
        local waits = host.can_wait()
        if waits then
            pcall(cores.await_answers, client)       -- or the core would, and stop the loop
        end
        box.clients[client] = nil
        cores.unshare(client.core, box.mailbox, waits)
    end
end

-- Futures are coroutines of the loop.
local function add_futures(host, box)
    function host.start(future, body)
        future.sleepers = {}
        future.client:open()     -- the loop may start it after another waits for it
        local can_spawn, why = pcall(host.spawn, function()
            if future.done then      -- cancelled before
                return
            end
            future.begun = true
            local co = running()
            box.tasks[co] = future
            body()
            box.tasks[co] = nil
        end)
        if not can_spawn then
            errors.rethrow_interrupt(why)
            future:finish(true, nil, errors.new("phase", "a future"))
        end
    end

    function host.cancel(future)
        if future.begun then
            box:cancel(future, future.cancelled)
        else
            future:finish(false, future.cancelled)
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
        if host.mortal then      -- to notice the owner's death even if it never waited
            box:attend()
        elseif host.remind then
            box:patrol(seconds)
        end
    end

    -- For finalizers: the loop's next turn, or let_go(), releases the owner's holds.
    function host.drop(who)
        box:note_end(who)
        box:look_again()
    end

    function host.look_within(seconds)
        if host.remind then
            box:patrol(seconds)
        end
    end

    for _, name in ipairs { "let_go", "attend", "look_again" } do
        host[name] = function() return box[name](box) end
    end
end

function _M.new(def)
    local host = {}
    for key, value in pairs(def) do
        host[key] = value
    end
    host.owner = host.owner or plain.owner
    host.alive = host.alive or plain.alive
    local can_wait = host.can_wait or always
    function host.can_wait()
        return no_wait.may_wait() and can_wait()
    end
    host.spawn = host.spawn or spawn
    host.defer = host.defer or host.spawn
    host.log = host.log or plain.log
    host.nap = host.mortal and NAP or huge
    host.accept, host.poll_at = accept, poll_at
    local box = boxes.new(host)
    host.box = box
    function host.wait(round, abandon, a, b)
        return box:wait(round, abandon, a, b)
    end
    host.concurrent, host.shares = always, true
    add_clients(host, box)
    add_futures(host, box)
    add_holds(host, box)
    return host
end

return _M
