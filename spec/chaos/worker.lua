-- luajit spec/chaos/worker.lua CONFIG.json
--
-- One client process. Commands on standard input: "settle" ends the taking of locks at random,
-- takes every lock once and says "settled"; "quit" closes the client. With one slot it blocks;
-- with more, each is a coroutine that waits for futures.
local cjson = require "cjson"
local inspect = require "spec.support.inspect"
local marks = require "spec.chaos.marks"
local random = require "spec.chaos.random"
local redlock = require "redlock"
local sys = require "spec.support.sys"
local users = require "spec.chaos.user"

local config = cjson.decode(assert(sys.read_file(arg[1])))
local send, now = marks.sender(config.recorder), marks.now

local TURN_S = 0.002            -- how long the futures are served before others have a turn

-- So that tokens continue from the floors.
require("redlock.servers.floors").COUNTER_TTL = config.options.max_lease
local client = redlock.new(config.options)
local settling = false

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

local user = users.new { id = config.id, config = config, client = client, send = send,
    wait = wait, ended = function() return settling end }

local function live(slot)
    while not settling do
        user:one(slot)
    end
    user:settle(slot)
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
    jit.flush()                  -- compiled code is not what is looked at
    collectgarbage()
    collectgarbage()
    send { k = k, c = config.id, a = now(), fds = inspect.fds(), rss = inspect.rss(),
        lua = collectgarbage "count" }
end

local function new_slot(number)
    return { number = number, careless = config.careless_slot == number,
        fenced = config.fenced,
        ways = config.careless_slot ~= number and config.ways or nil,
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
