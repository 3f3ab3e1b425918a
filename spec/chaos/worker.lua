-- luajit spec/chaos/worker.lua CONFIG.json
--
-- One client process: takes and releases locks at random, uses a resource under them, and
-- sends marks of all that (see history.lua for what each mark means). Commands on standard
-- input: "settle" ends that, takes every lock once and says "settled"; "quit" closes the
-- client. With one slot it blocks; with more, each is a coroutine that waits for futures.
local cjson = require "cjson"
local inspect = require "spec.support.inspect"
local marks = require "spec.chaos.marks"
local random = require "spec.chaos.random"
local redlock = require "redlock"
local sys = require "spec.support.sys"

local config = cjson.decode(assert(sys.read_file(arg[1])))
local send, now = marks.sender(config.recorder), marks.now
local resource = marks.shared(config.resource)

local SAMPLE_S = 0.04           -- how often a holder looks at its validity
local TURN_S = 0.002            -- how long the futures are served before others have a turn
local HOLD_MEAN_S = 0.015
local FREE_NAME_ROUNDS = 10     -- how often a lock that nobody else wants is taken at the end

local client = redlock.new {
    nodes = config.nodes,
    lease = config.lease, max_lease = config.max_lease, timeout = config.timeout,
    connect_timeout = config.connect_timeout, retry_delay = 0.02, fallback = 0.2,
    patience = 2, restart_guard = config.restart_guard,
}

local settling = false
local serial = 0                -- numbers the calls of this process

local function mark(slot, fields)
    fields.c, fields.s = config.id, slot.number
    send(fields)
end

-- ---- waiting, in one of two ways -------------------------------------------------

local blocking = {}

function blocking.call(lock, method, ...)
    return lock[method](lock, ...)
end

blocking.sleep = sys.sleep

local futures = {}

function futures.call(lock, method, ...)
    local future = lock[method .. "Async"](lock, ...)
    while not future:isDone() do
        coroutine.yield(future)
    end
    return future:get()
end

-- Cancels a call that is not done after a while. @return as the call, or nil, cancelled
function futures.hasty(lock, method, patience, ...)
    local future = lock[method .. "Async"](lock, ...)
    local finish = now() + patience * 1000
    while not future:isDone() and now() < finish do
        coroutine.yield(future)
    end
    future:cancel()
    return future:get()
end

function futures.sleep(seconds)
    local finish = now() + seconds * 1000
    while now() < finish do
        coroutine.yield()
    end
end

local wait = config.slots > 1 and futures or blocking

-- ---- one hold --------------------------------------------------------------------

-- Validity as it was at a moment not later than it was asked for.
local function validity(slot, lock, kind, fields)
    local at = now()
    local left = lock:remaining() * 1000
    fields.k, fields.at, fields.left = kind, at, left
    mark(slot, fields)
    return left > 0
end

-- Read, think, write: an update is lost when two do it at once. Guarded: only while valid.
local function use(slot, lock, index, seconds, guarded)
    local value = resource[index]
    wait.sleep(seconds)
    if guarded and not lock:isValid() then
        return
    end
    resource[index] = value + 1
    mark(slot, { k = "wrote", l = slot.name, n = slot.n, a = now() })
end

local function acquire(slot, name, seconds, lease, patience)
    local lock = client:getLock(name)
    serial = serial + 1
    slot.name, slot.n = name, serial
    local a = now()
    mark(slot, { k = "call", l = name, n = slot.n, a = a, wait = seconds, lease = lease })
    local ok, err
    if patience and wait.hasty then
        ok, err = wait.hasty(lock, "tryLock", patience, seconds, lease)
    elseif seconds then
        ok, err = wait.call(lock, "tryLock", seconds, lease)
    else
        ok, err = wait.call(lock, "lock", lease)
    end
    local b = now()
    if not ok then
        mark(slot, { k = "fail", l = name, n = slot.n, a = a, b = b, wait = seconds,
            code = err.code })
        return nil, err
    end
    validity(slot, lock, "got", { l = name, n = slot.n, a = a, b = b, wait = seconds,
        lease = (lease or config.lease) * 1000, kept = lease == nil,
        token = lock.token and lock:token() or nil })
    lock:onLost(function(_, why)
        mark(slot, { k = "lost", l = name, n = slot.n, a = now(), why = why })
    end)
    return lock
end

local function release(slot, lock)
    local n, name = slot.n, slot.name
    local a = now()
    mark(slot, { k = "exit", l = name, n = n, a = a })
    local ok, err = wait.call(lock, "unlock")
    mark(slot, { k = "released", l = name, n = n, a = a, b = now(), ok = ok or false,
        code = err and err.code })
    return ok, err
end

local function hold(slot, lock, seconds)
    local r = slot.random
    local finish = now() + seconds * 1000
    while not settling do
        local left = (finish - now()) / 1000
        if left <= 0 then
            return
        end
        wait.sleep(math.min(left, SAMPLE_S))
        if r:float() < 0.1 then
            local a = now()
            local ok, err = wait.call(lock, "extend")
            mark(slot, { k = "extended", l = slot.name, n = slot.n, a = a, b = now(),
                ok = ok or false, code = not ok and err.code or nil })
        end
        if not validity(slot, lock, "valid", { l = slot.name, n = slot.n }) then
            return
        end
    end
end

-- ---- what a slot does ------------------------------------------------------------

local function one_hold(slot)
    local r = slot.random
    local index = r:integer(1, #config.locks)
    local lease = r:float() < 0.6 and r:pick(config.leases) or nil
    local seconds = r:pick { 0, 0.2, 1, 1 }
    if not lease and r:float() < 0.3 then
        seconds = nil                            -- lock(): as long as it takes
    end
    local patience = seconds and r:float() < 0.1 and r:exponential(0.005) or nil
    local length = r:exponential(HOLD_MEAN_S)
    if r:float() < 0.02 then
        length = r:between(0.5, 3) * config.lease    -- longer than the lease
    end
    local lock = acquire(slot, config.locks[index], seconds, lease, patience)
    if lock then
        use(slot, lock, index, math.min(length, 0.01), true)
        hold(slot, lock, length)
        release(slot, lock)
    end
    wait.sleep(r:exponential(0.02))
end

-- The control: somebody who takes a lock and then ignores how long it is valid. What follows
-- must be seen by whoever judges the others.
local function one_careless(slot)
    local r = slot.random
    local lock = acquire(slot, config.careless, 1, config.leases[1])
    if lock then
        use(slot, lock, 0, r:between(0, 2) * config.leases[1], false)
        release(slot, lock)
    end
    wait.sleep(r:exponential(0.02))
end

-- All faults are over: every lock can be had, and one that nobody wants at the first try.
local function settle(slot)
    for _, name in ipairs(config.locks) do
        local lock, err = acquire(slot, name, config.settle_s, config.leases[1])
        if lock then
            release(slot, lock)
        else
            mark(slot, { k = "bad", l = name, a = now(), text = ("%s was not to be had in %g s "
                .. "after all faults were over: %s"):format(name, config.settle_s,
                tostring(err)) })
        end
    end
    local own = ("own %s %d"):format(config.id, slot.number)
    for _ = 1, FREE_NAME_ROUNDS do
        local lock, err = acquire(slot, own, 0, config.leases[1])
        local ok = lock and release(slot, lock)
        -- A busy machine may be slower than a time-out, but nobody else may have it.
        if err and err.code == "held" then
            mark(slot, { k = "bad", l = own, a = now(), text = "a released lock is still held: "
                .. tostring(err) })
        elseif ok then
            slot.freed = (slot.freed or 0) + 1
        end
    end
    if not slot.freed then
        mark(slot, { k = "bad", l = own, a = now(), text = "a lock that nobody else wants was "
            .. "not taken and released once" })
    end
end

local function live(slot)
    while not settling do
        if slot.careless then
            one_careless(slot)
        else
            one_hold(slot)
        end
    end
    settle(slot)
end

-- ---- the process -----------------------------------------------------------------

local stdin = require("spec.support.stream").new(0)

-- @return "quit" at the end
local function listen(timeout)
    local line, err = stdin:read_line(timeout)
    if line == "settle" then
        settling = true
    elseif line == "quit" or err == "eof" then
        return "quit"
    end
end

local function resources(k)
    collectgarbage()
    collectgarbage()
    send { k = k, c = config.id, a = now(), fds = inspect.fds(), rss = inspect.rss(),
        lua = collectgarbage "count" }
end

local function new_slot(number)
    return { number = number, careless = config.careless_slot == number,
        random = random.new(config.seed, config.id, number) }
end

local function poll()
    if not settling and listen(0) == "quit" then
        os.exit(0)
    end
end

local function run_blocking()
    local sleep = wait.sleep
    function wait.sleep(seconds)
        poll()
        sleep(seconds)
    end
    live(new_slot(1))
end

local function run_futures()
    local slots, pending = {}, {}
    for i = 1, config.slots do
        local slot = new_slot(i)
        slots[i] = coroutine.create(function() live(slot) end)
    end
    while #slots > 0 do
        poll()
        for i = #slots, 1, -1 do
            local co = slots[i]
            if not pending[co] or pending[co]:isDone() then
                local ok, future = coroutine.resume(co)
                assert(ok, future)
                pending[co] = future
                if coroutine.status(co) == "dead" then
                    table.remove(slots, i)
                end
            end
        end
        local _, future = next(pending)
        if future then
            future:get(TURN_S)
        else
            sys.sleep(TURN_S)
        end
    end
end

resources "began"
if config.slots > 1 then
    run_futures()
else
    run_blocking()
end
resources "settled"
io.stdout:write "settled\n"
io.stdout:flush()
repeat until listen(3600) == "quit"
client:close()
os.exit(0)
