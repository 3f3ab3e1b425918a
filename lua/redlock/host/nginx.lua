--- Host for OpenResty and nginx with the Lua module: a request that waits yields.
--
-- Who wakes whom, and when:
--
--   nginx      polls the mailbox's descriptor, as it does its channel to the master. When a server
--              has answered, C turns the cores there, and rings the bell if a round is done.
--   the bell   wakes the reader, a timer of which each worker has one. It also rings at the times
--              that ring_later() was given, and when a request that held something has ended.
--   the reader posts the semaphore of each waiter whose round is done, then its own fence. A waiter
--              that has not run when the fence comes was killed, and what it had is freed.
--   the alarm  every CALM_MS while something is held has the reader look for dead owners.
--   listen()   starts the reader for the first waiter. It ends when nobody waits and nothing is
--              held: a timer that waits for ever would keep an old worker alive after a reload.
--   poll()     replaces the reader when nginx has no timer for it: one waiter polls for all.
--   watch()    looks for the worker's exit while anybody waits, and then ends waits in timers.

local ffi = require "ffi"
local finalizers = require "redlock.runtime.finalizers"
local loop = require "redlock.host.loop"

local error, ipairs, next, pairs, pcall, tonumber, tostring =
    error, ipairs, next, pairs, pcall, tonumber, tostring
local ceil, min = math.ceil, math.min
local clock = os.clock        -- processor time: while it does not run, others may
local ngx = ngx
local get_phase = ngx.get_phase

local found, semaphore = pcall(require, "ngx.semaphore")
if not found then
    error("redlock: lua-resty-core is needed in nginx: " .. tostring(semaphore), 0)
end
local nginx_end = require "redlock.host.nginx_end"
local owners = require "redlock.host.nginx_owner"

local IDLE_MS = 1000          -- the reader ends after this long without a waiter
-- While something is held, the collector gets STOP_S of processor time every CALM_MS: it finishes
-- at once in a small worker, and never stops a large one for long. A waiter whose name another
-- request has held for SUSPECT_S may wait for a dead one, and a forgotten lock must not keep a
-- worker that is told to quit: then the collector runs every HUNT_MS until it has finished, and
-- again once a second. Where that took long it first rests for REST times as long, but not in a
-- worker that quits.
local STOP_S, CALM_MS, HUNT_MS, REST = 0.002, 250, 20, 100
local SUSPECT_S = 0.5
local START_MS = 20           -- the reader may take this long to start; then waiters poll
local LATE_MS = 1000          -- the log mentions a missing reader after this
local POLL_S = 0.001          -- between two polls of a waiter
local TURN_MS = 2             -- the worker's other events wait at most this much longer
local LONG_S = 86400          -- only saves a wait that is stuck
local WATCH_S = 5             -- how long a timer looks for the worker's exit, as long as any waits
local DROPPED_MS = 50         -- nginx dropped a timer that has not run by then (too many run)
local RETRY_MS = 1000         -- between two attempts to start the reader; doubles each time ...
local RETRY_MAX_MS = 60000    -- ... up to this: each attempt logs a line or two

-- Only OpenResty's patched nginx and OpenSSL export these.
ffi.cdef [[
    void redlock_ngx_patched(void) __asm__("ngx_is_privileged_agent");
    void redlock_ssl_patched(void) __asm__("SSL_magic_pending_session_ptr");
]]
local patched = pcall(function() return ffi.C.redlock_ngx_patched end)
local session_lookup = patched and pcall(function() return ffi.C.redlock_ssl_patched end)

-- The contexts that lua-nginx-module lets yield, where nginx goes on with them: without its patch
-- for a handshake it resets the connection.
local YIELDS = { rewrite = true, server_rewrite = true, access = true, precontent = true,
    preread = true, content = true, timer = true, ssl_cert = true, ssl_client_hello = patched,
    ssl_session_fetch = session_lookup,
    proxy_ssl_verify = patched, proxy_ssl_cert = patched
        and (ngx.config.subsystem == "stream" or ngx.config.ngx_lua_version >= 10030) }

local host
local reader = { running = false, connected = false,
    again = 0,                -- no attempt to start it before this (ms)
    pause = RETRY_MS,         -- between the next attempt and the one after it
    starting = 0,             -- waiters wait for it until then (ms)
}
local timed = false           -- a timer was started in this worker
local poller = {}             -- waiter, at; since: there is no reader; looked: for the dead (ms)
local warned = false

local function log(text)
    ngx.log(ngx.ERR, "redlock: ", text)
end

local function warn(text)
    ngx.log(ngx.WARN, "redlock: ", text)
end

local function warn_once(why)
    if not warned then
        warned = true
        log(why .. ": waiting costs up to 1 ms more")
    end
end

local function now_ms(box)
    return tonumber(box.C.rl_now_ms())
end

-- ---- the reader ------------------------------------------------------------------

-- From ngx_channel.h, ngx_cycle.h and the Lua modules, under our own names.
local DECLARATIONS = [[
    intptr_t redlock_ngx_add_event(void *cycle, int fd, intptr_t events, void (*ready)(void *))
        __asm__("ngx_add_channel_event");
    extern void *redlock_ngx_cycle __asm__("ngx_cycle");
    void redlock_ngx_epoll(void) __asm__("ngx_epoll_module");
    int redlock_ngx_sema_post(void *semaphore, int n) __asm__("ngx_%s_lua_ffi_sema_post");
    void redlock_ngx_sema_gc(void *semaphore) __asm__("ngx_%s_lua_ffi_sema_gc");
]]
ffi.cdef(DECLARATIONS:format(ngx.config.subsystem, ngx.config.subsystem))
local add_event, post
-- Whether nginx polls for us: an nginx without epoll numbers its events otherwise.
local able = pcall(function()
    add_event, post = ffi.C.redlock_ngx_add_event, ffi.C.redlock_ngx_sema_post
    return ffi.C.redlock_ngx_epoll, ffi.C.redlock_ngx_cycle
end)
local bell                    -- posted when the mailbox has something

-- Has the mailbox ring the bell.
local function connect(box)
    local C, mailbox = box.C, box.mailbox
    if not able then
        bell = bell or semaphore.new(0)
        return warn_once "this nginx does not poll for the library"
    elseif not bell then
        bell = semaphore.new(0)
        ffi.gc(bell.sem, function(sem)     -- a later finalizer of ours must not ring it
            C.rl_mailbox_post(mailbox, nil, nil)
            ffi.C.redlock_ngx_sema_gc(sem)
        end)
    end
    if C.rl_mailbox_host(mailbox, add_event, ffi.C.redlock_ngx_cycle) ~= 0 then
        error("nginx has no connection for it (worker_connections)", 0)
    end
    C.rl_mailbox_post(mailbox, post, bell.sem)
end

-- Without nginx the bell is silent, and the reader looks all the time.
local function await_bell()
    return bell:wait(able and LONG_S or POLL_S) or not able
end

-- Lets the mailbox ring after `ms`.
-- @return a round, or nil: no client is open
local function ring_later(box, ms)
    local client = next(box.clients)
    local round = client and box.C.rl_sleep(client.core, ms, nil, 0)
    if not round or round == nil then
        return nil
    end
    box.C.rl_round_post(round, box.mailbox)
    return ffi.gc(round, box.C.rl_round_free)
end

-- Collections to finish before the holds of a dead coroutine are released: one that may have been
-- under way at its death, one that finds the owner, and one for the holds of an opts.owner.
local COLLECTIONS = 3
local left, hurried = 0, false
local spent, rest = 0, 0      -- by these collections (s); none begins before this (ms)

local function collect(now_in_ms)
    local began = clock()
    local now = began
    while left > 0 and now < began + STOP_S do
        for _ = 1, 10 do     -- of some microseconds each
            left = left - (collectgarbage "step" and 1 or 0)
        end
        now = clock()
    end
    spent = spent + now - began
    if left <= 0 and spent > 0 then
        rest, spent, hurried = now_in_ms + REST * 1000 * spent, 0, false
    end
end

-- Runs from time to time: the collector must find a coroutine that died without a release, so that
-- its locks are no longer renewed, also where nothing else makes it run.
-- @return in how many ms to run again; false: not at all
local function look_for_dead(box)
    local holding, exiting, now = box:holds_something(), ngx.worker.exiting(), now_ms(box)
    if not holding and left <= 0 then
        return false
    elseif holding and (now >= rest or exiting) then
        left = left > 0 and left or COLLECTIONS
        if not hurried and (exiting or box:is_waited_for(SUSPECT_S)) then
            left, hurried = COLLECTIONS, true
        end
    end
    local hunting = hurried
    owners.find_ended()
    collect(now)
    box:let_go()
    if hunting then
        return hurried and HUNT_MS or IDLE_MS
    end
    return (left > 0 or box:holds_something()) and CALM_MS
end

-- Semaphores run their waiters in the order of the posts, after the running handler. A fence posted
-- after all others posts us in turn, so then those have run.
local function new_fence()
    local fence = { behind = semaphore.new(0), passed = semaphore.new(0) }
    ngx.thread.spawn(function()
        while fence.behind:wait(LONG_S) and not fence.over do
            fence.passed:post(1)
        end
    end)
    return fence
end

local function end_fence(fence)
    fence.over = true
    fence.behind:post(1)
end

-- Lets woken waiters run; one that does not come is dead. Another looker (reader and poller may
-- overlap for a moment) may wake more meanwhile: the next turn handles those.
local function let_run(box, fence)
    local wakes = box.wakes
    fence.behind:post(1)
    fence.passed:wait(LONG_S)
    if box.wakes == wakes then
        box:free_killed()
    end
end

-- ---- what is due at a time -------------------------------------------------------

-- nginx drops a due timer if too many run: then the reader does its work.
local deferred = {}           -- a user's function -> when it is late (ms), and what rings then
local running_late = false
local reminder = {}           -- at (ms), fn

local function defer(fn)
    local box = host.box
    local function run()
        if deferred[run] then
            deferred[run] = nil
            fn()
        end
    end
    deferred[run] = { late = now_ms(box) + DROPPED_MS,
        bell = reader.connected and ring_later(box, DROPPED_MS + 1) }
    local ok, err = ngx.timer.at(0, run)
    if not ok then
        log("no timer for a callback (" .. tostring(err) .. "); it runs now")
        run()
    end
end

-- Each runs as an owner of its own, as in a timer, so they run one after the other.
local function run_late(now)
    local those = {}
    for run, one in pairs(deferred) do
        those[#those + 1] = now >= one.late and run or nil
    end
    running_late = #those > 0
    return running_late and ngx.thread.spawn(function()
        for _, run in ipairs(those) do
            ngx.ctx = {}
            pcall(run)
        end
        running_late = false
    end)
end

-- at_end: nobody will look for the reminder after this.
local function do_what_is_due(box, at_end)
    local now = now_ms(box)
    if next(deferred) and not running_late then
        run_late(now)
    end
    if reminder.at and (at_end or now >= reminder.at) then
        reminder.at = nil
        reminder.fn()
    end
end

-- For Box:patrol(), on which onEnding() relies; without a timer the next call looks.
local function remind(seconds, fn)
    if reader.connected then
        local ms = ceil(seconds * 1000)
        reminder.at, reminder.fn = now_ms(host.box) + ms, fn
        reminder.bell = ring_later(host.box, ms)
    else
        ngx.timer.at(seconds, fn)
    end
end

-- Wakes waiters whose rounds are done, also those that finish meanwhile, for which nothing rings.
-- All of it is one event of nginx, so it stops after TURN_MS for the others.
local function turn(box, fence)
    local ends = now_ms(box) + TURN_MS
    while box:take() > 0 do
        if #box.woken > 0 then
            let_run(box, fence)
        end
        if now_ms(box) >= ends then
            box.C.rl_mailbox_ring(box.mailbox)     -- to be read again after the other events
            break
        end
    end
    owners.find_ended()            -- a request that ended holding something has rung
    do_what_is_due(box)
    return box:look()
end

-- Whether a worker that is told to quit need not wait for the reader any more. The worker's end
-- releases holds that belong to no running request.
local function reader_may_stop(box)
    if not ngx.worker.exiting() then
        return false
    end
    for client in pairs(box.clients) do
        for _, hold in ipairs(client.holds:all()) do
            if not hold.lost and owners.is_of_running(hold, client.holds.whose[hold.mine]) then
                return false
            end
        end
    end
    return true
end

-- Reads until nobody waits and nothing is held.
local function turn_until_idle(box)
    connect(box)
    local fence = new_fence()
    reader.connected, poller.since = true, nil
    local alarm, waits, used = ring_later(box, CALM_MS), -1, 0
    repeat
        local waiting = turn(box, fence)
        if alarm and box.C.rl_round_outcome(alarm) ~= 0 then
            local now = now_ms(box)
            if waiting > 0 or box.waits ~= waits then
                waits, used = box.waits, now
            end
            -- Also while others wait: perhaps for a dead one.
            local ms = look_for_dead(box) or now - used < IDLE_MS and CALM_MS
            alarm = ms and ring_later(box, ms)
        end
    until box.count == 0 and not next(deferred)
        and (waiting == 0 and not alarm or reader_may_stop(box)) or not await_bell()
    end_fence(fence)
end

local listen

local function run(_, box)
    if reader.running then
        return               -- a timer that came late
    end
    reader.running = true
    local ok, err = pcall(turn_until_idle, box)
    reader.running, reader.connected, reader.starting = false, false, 0
    box.C.rl_mailbox_post(box.mailbox, nil, nil)
    do_what_is_due(box, true)
    if ok then
        reader.again, reader.pause = 0, RETRY_MS
    else
        log("the reader failed: " .. tostring(err))
    end
    if box.count > 0 then
        listen(box)
    end
end

-- When a worker is told to quit, nginx closes its connections after the timers. A first timer made
-- later would log "open socket #-2 left in connection" at the end.
local function too_late()
    return not timed and ngx.worker.exiting()
end

function listen(box)
    -- It reads in any case if somebody wants to hear of a loss.
    if reader.running or too_late() and not box:is_listened_to() then
        return
    end
    local now = now_ms(box)
    if now < reader.again then
        return
    end
    reader.again, reader.pause = now + reader.pause, min(2 * reader.pause, RETRY_MAX_MS)
    local ok, err = ngx.timer.at(0, run, box)
    timed = timed or ok
    reader.starting = ok and now + START_MS or 0
    if not ok then
        log("no timer for the reader: " .. tostring(err))
    end
end

-- ---- waiting ---------------------------------------------------------------------

-- Without a reader (lua_max_running_timers, too_late) one waiter polls for all.
local function poll(w)
    local box = host.box
    poller.since = poller.since or now_ms(box)
    if not too_late() and now_ms(box) - poller.since > LATE_MS then
        warn_once "no timer wakes those who wait (is lua_max_running_timers reached?)"
    end
    local fence
    while not w.outcome and not reader.connected do
        local now = now_ms(box)
        if poller.waiter == w or not poller.waiter or now - poller.at > 50 then
            poller.waiter, poller.at = w, now
            w.sem:wait(POLL_S)       -- no sleep: the reader may wake it
            poller.at = now_ms(box)
            repeat until box:take() == 0     -- or the bell would stay silent
            box:look()
            if #box.woken > 0 and not w.outcome then
                fence = fence or new_fence()
                let_run(box, fence)
            end
            if poller.at - (poller.looked or 0) > CALM_MS then
                poller.looked = poller.at
                look_for_dead(box)
            end
            listen(box)
        else
            w.sem:wait(0.05)
        end
    end
    if fence then
        end_fence(fence)
    end
    if poller.waiter == w then
        poller.waiter = nil
        local _, other = next(box.waiting)
        if other and other.sem then
            other.sem:post(1)
        end
    end
end

-- Calls that wait in a timer, which may have no end of its own, hear of the worker's exit: nginx
-- then runs the timers that are not due.
local watching = false

local function watch(early)
    watching = false
    if early then
        host.box:announce_end()
    elseif host.box.count > 0 then
        watching = ngx.timer.at(WATCH_S, watch) ~= nil
    end
end

local function suspend(w)
    if not w.sem then
        w.sem = semaphore.new(0)
    end
    if reader.connected then
        local ok, err = w.sem:wait(LONG_S)
        if not ok and err ~= "timeout" then
            error("redlock: cannot wait here: " .. tostring(err), 0)
        end
        return
    end
    local starting = reader.starting - now_ms(host.box)
    if starting <= 0 or not w.sem:wait(starting / 1000) and not reader.connected
        and not w.outcome then
        poll(w)
    end
end

local function wake(w)
    if w.sem then
        w.sem:post(1)
    end
end

-- ---- the host --------------------------------------------------------------------

host = loop.new {
    name = "nginx",
    mortal = true,
    owner = owners.owner,
    owners = owners.owners,
    taken = owners.taken,
    left = owners.left,
    enclose = owners.enclose,
    in_vain = owners.in_vain,
    alive = function() return true end,      -- a token dies by being collected
    can_wait = function()
        return not finalizers.are_last() and YIELDS[get_phase()] or false
    end,
    suspend = suspend,
    wake = wake,
    listen = function(box, w)
        if w then
            w.ends = get_phase() == "timer"
            watching = watching or w.ends and ngx.timer.at(WATCH_S, watch) ~= nil
        end
        listen(box)
    end,
    is_ending = function() return ngx.worker.exiting() and get_phase() == "timer" end,
    spawn = function(fn) return ngx.thread.spawn(fn) end,
    defer = defer,
    log = log,
    warn = warn,

    remind = remind,
}

nginx_end.ring(function() return host.box.mailbox end)
owners.on_end(function(owner) host.box:note_end(owner) end)

return host
