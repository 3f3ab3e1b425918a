--- Host for OpenResty and nginx with the Lua module: a request that waits yields.
--
-- One timer per worker reads the wake-up socket and posts a semaphore per waiter. It runs
-- only while somebody waits: a timer that reads for ever would keep an old worker alive
-- after a reload. Without it one of those who wait looks for all.

local ffi = require "ffi"
local finalizers = require "redlock.runtime.finalizers"
local loop = require "redlock.host.loop"
local validate = require "redlock.runtime.validate"

local assert, error, ipairs, next, pairs, pcall, tonumber, tostring =
    assert, error, ipairs, next, pairs, pcall, tonumber, tostring
local ceil, min = math.ceil, math.min
local clock = os.clock        -- processor time: it may be the others' turn meanwhile
local ngx = ngx
local get_phase = ngx.get_phase

if ngx.config.subsystem ~= "http" then
    error("redlock: nginx's " .. ngx.config.subsystem .. " subsystem is not supported; use "
        .. "it in http, or pass another host", 0)
end

local found, semaphore = pcall(require, "ngx.semaphore")
if not found then
    error("redlock: lua-resty-core is needed in nginx: " .. tostring(semaphore), 0)
end
local nginx_end = require "redlock.host.nginx_end"
local owners = require "redlock.host.nginx_owner"

local MAX_DIR = 80            -- a path of a socket has 107 bytes at most
local IDLE_MS = 1000          -- the reader ends after so long without anybody waiting
-- While something is held the collector gets so much processor time so often: a small worker
-- is through at once, a large one is never stopped for long. If somebody of the worker waits
-- for what another request has held for a while, that one may be dead, and a forgotten lock
-- must not keep a worker that is told to quit: then it is hurried until it is through, and so
-- on once a second.
local STOP_S, CALM_MS, HUNT_MS = 0.002, 250, 20
local SUSPECT_S = 0.5
local START_MS = 20           -- it may take to start, before the waiters help themselves
local LATE_MS = 1000          -- before it is logged that it does not
local POLL_S = 0.001          -- how often they look then
local TURN_MS = 2             -- the worker's other events wait at most so much longer
local LONG_S = 86400          -- an end of a wait that only saves a stuck one
local DROPPED_MS = 50         -- a timer that has not run by then was dropped (too many run)
local RETRY_MS = 1000         -- between two attempts to start the reader; twice as long each ...
local RETRY_MAX_MS = 60000    -- ... time, up to this: each is a line or two in the log

local YIELDS = { rewrite = true, server_rewrite = true, access = true, content = true,
    timer = true, ssl_cert = true }
-- A handshake can yield there only with the patches of OpenResty.
local patched = ngx.config.nginx_configure():find "openresty" ~= nil
YIELDS.ssl_session_fetch, YIELDS.ssl_client_hello = patched, patched

local host
local reader = { running = false, connected = false,
    again = 0,                -- it is not tried to start before (ms)
    pause = RETRY_MS,         -- between the next attempt and the one after it
    starting = 0,             -- until when it may come (ms)
}
local timed = false           -- it was started in this worker
local poller = {}             -- waiter, at; since: there was no reader; looked: for the dead (ms)
local warned = false

local function log(text)
    ngx.log(ngx.ERR, "redlock: ", text)
end

local function warn(text)
    ngx.log(ngx.WARN, "redlock: ", text)
end

local function now_ms(box)
    return tonumber(box.C.rl_now_ms())
end

-- ---- the reader ------------------------------------------------------------------

local path_buf
local socket_dir = "/tmp"

-- A connection to the mailbox; or nil and why.
local function connect(box)
    path_buf = path_buf or ffi.new "char[108]"
    local errno = box.C.rl_mailbox_listen(box.mailbox, socket_dir, path_buf, 108)
    if errno ~= 0 then
        return nil, "no socket below " .. socket_dir .. " (errno " .. errno .. "); name another "
            .. 'directory in init_by_lua: require("redlock.host.nginx").set_socket_dir(path)'
    end
    local sock = ngx.socket.tcp()
    sock:settimeouts(1000, 1000, LONG_S * 1000)
    local ok, err = sock:connect("unix:" .. ffi.string(path_buf))
    errno = box.C.rl_mailbox_accept(box.mailbox)
    if not ok or errno ~= 0 then
        return nil, "no connection to the wake-up socket: " .. (err or "errno " .. errno)
    end
    return sock
end

-- Lets the mailbox ring after a while: a read with a time-out would be logged as an error
-- each time.
-- @return a round, or nil: no client is open
local function ring_later(box, ms)
    local client = next(box.clients)
    local round = client and box.C.rl_sleep(client.core, ms)
    if not round or round == nil then
        return nil
    end
    box.C.rl_round_post(round, box.mailbox)
    return ffi.gc(round, box.C.rl_round_free)
end

-- Collections to be finished before what the dead held is let go: one that may have been under
-- way when he died, one that finds the owner, and of an opts.owner one for what that held.
local COLLECTIONS = 3
local left_to_collect = 0
local hunt = 0                -- how many are left of those that are hurried

local function collect()
    local stop = clock() + STOP_S
    while (left_to_collect > 0 or hunt > 0) and clock() < stop do
        for _ = 1, 10 do     -- of some microseconds each
            if collectgarbage "step" then
                left_to_collect, hunt = left_to_collect - 1, hunt - 1
            end
        end
    end
end

-- Once in a while: whoever died without letting go must be found by the collector for his
-- locks not to be renewed any more, also where nothing else makes it run.
-- @return in how many ms that is to go on; false: not at all
local function look_for_dead(box)
    if box:holds_something() then
        left_to_collect = COLLECTIONS
    elseif left_to_collect <= 0 then
        return false
    end
    if hunt <= 0 and (ngx.worker.exiting() or box:is_waited_for(SUSPECT_S)) then
        hunt = COLLECTIONS
    end
    local hunting = hunt > 0
    owners.look()
    collect()
    box:let_go()
    if hunting then
        return hunt > 0 and HUNT_MS or IDLE_MS
    end
    return (left_to_collect > 0 or box:holds_something()) and CALM_MS
end

-- What was posted runs in that order, when the running handler is done: who is posted
-- behind all others, and posts us, tells that they have run.
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

-- Lets those have their turn who were woken; who does not come is dead. Another one who looks
-- (the reader and a poller, for a moment) may wake more meanwhile: they are left to the next turn.
local function let_run(box, fence)
    local wakes = box.wakes
    fence.behind:post(1)
    fence.passed:wait(LONG_S)
    if box.wakes == wakes then
        box:bury()
    end
end

-- As let_run(), and what they start is sent together.
local function run_together(box, fence)
    local woken = #box.woken
    if woken == 0 then
        return
    elseif woken > 1 then
        box:cork()
    end
    let_run(box, fence)
    if woken > 1 then
        box:uncork()
    end
end

-- ---- what is due at a time -------------------------------------------------------

-- nginx drops a timer, when it is due, if too many run: then the reader does what it was for.
local deferred = {}           -- functions of users -> when they are late (ms), and what rings then
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

-- Each is an owner of its own, as in a timer, so that they run one after the other.
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

-- at_end: nobody looks for the reminder from now on.
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

-- For those who are told before a lease is over; without a timer their next call tells them.
local function remind(seconds, fn)
    if reader.connected then
        local ms = ceil(seconds * 1000)
        reminder.at, reminder.fn = now_ms(host.box) + ms, fn
        reminder.bell = ring_later(host.box, ms)
    else
        ngx.timer.at(seconds, fn)
    end
end

-- Wakes those whose rounds are done, also those that become so meanwhile: nothing rings
-- for them. All of that is one event of nginx, so after a while the others get their turn.
local function turn(box, fence)
    local ends = now_ms(box) + TURN_MS
    while box:take() > 0 do
        run_together(box, fence)
        if now_ms(box) >= ends then
            box.C.rl_mailbox_ring(box.mailbox)     -- to be read again behind them
            break
        end
    end
    owners.look()            -- one that ended holding something has rung
    do_what_is_due(box)
    return box:look()
end

-- A worker that is told to quit waits for nothing but the reader, once nobody waits. What is held
-- for somebody else than a request that runs is released at the worker's end.
local function is_over(box)
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

-- Reads until nobody waits any more, and nothing is held.
local function read(box)
    local sock = assert(connect(box))
    local fence = new_fence()
    reader.connected, poller.since = true, nil
    local bell, waits, used = ring_later(box, CALM_MS), -1, 0
    repeat
        local waiting = turn(box, fence)
        if bell and box.C.rl_round_outcome(bell) ~= 0 then
            local now = now_ms(box)
            if waiting > 0 or box.waits ~= waits then
                waits, used = box.waits, now
            end
            -- Also while others wait: perhaps for a dead one.
            local ms = look_for_dead(box) or now - used < IDLE_MS and CALM_MS
            bell = ms and ring_later(box, ms)
        end
    until box.count == 0 and not next(deferred) and (waiting == 0 and not bell or is_over(box))
        or not sock:receiveany(64)
    end_fence(fence)
    sock:close()
end

local listen

local function run(_, box)
    if reader.running then
        return               -- a timer that came late
    end
    reader.running = true
    local ok, err = pcall(read, box)
    reader.running, reader.connected, reader.starting = false, false, 0
    box.C.rl_mailbox_hang_up(box.mailbox)
    box:uncork()
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

-- nginx closes the connection behind a worker's timers when that is told to quit. If the first
-- timer is made later, it logs "open socket #-2 left in connection" at the end.
local function too_late()
    return not timed and ngx.worker.exiting()
end

function listen(box)
    -- For who wants to hear of a loss it is read all the same.
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

-- Without a reader (lua_max_running_timers, too_late) one of those who wait looks for all.
local function poll(w)
    local box = host.box
    poller.since = poller.since or now_ms(box)
    if not warned and not too_late() and now_ms(box) - poller.since > LATE_MS then
        warned = true
        log("no timer reads the wake-up socket (is lua_max_running_timers reached?): "
            .. "waiting costs up to 1 ms more until one does")
    end
    local fence
    while not w.outcome and not reader.connected do
        local now = now_ms(box)
        if poller.waiter == w or not poller.waiter or now - poller.at > 50 then
            poller.waiter, poller.at = w, now
            w.sem:wait(POLL_S)       -- and no sleep: the reader may wake this one
            poller.at = now_ms(box)
            box:drain()
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
    listen = function(box) listen(box) end,
    spawn = function(fn) return ngx.thread.spawn(fn) end,
    defer = defer,
    log = log,
    warn = warn,

    remind = remind,

    -- Where workers make the private directory of their wake-up sockets; where there is one, it is
    -- where the next one is made.
    set_socket_dir = function(path)
        socket_dir = validate.text("socket_dir", path, MAX_DIR)
    end,
}

nginx_end.ring(function() return host.box.mailbox end)
owners.tell(function(owner) host.box:note_end(owner) end)

return host
