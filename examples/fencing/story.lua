-- What the examples of this folder share. A fenced lock protects an account of 100. A reads the
-- account to add 10, and checks its lock a last time. Then its process is stopped for longer than
-- its lease. B gets the lock and adds 5. Then A continues.
--
-- Shown twice: without the check B's 5 are lost; with it A is refused.

local redlock = require "redlock"
local support = require "spec.support"

-- B's lease is long enough; A's is the shortest in which A reaches its last check on any machine.
local A = { amount = 10, lease = 2 }
local B = { amount = 5, lease = 60 }

local _M = {}

local start

local function say(...)
    print(("  %5.2f s  "):format(support.now() - start) .. string.format(...))
end

-- ---- the processes A and B -----------------------------------------------------------

local function add(open, place, amount, lease, nodes)
    local lock = redlock.new({ nodes = nodes }):getFencedLock "account:7"
    local ok, token = lock:tryLock(20, lease)
    assert(ok, tostring(token))
    local account = open(place)
    local balance = assert(account.read(token))
    lock:check()
    print(("has the lock with token %.0f and reads %d"):format(token, balance))
    io.read()
    local written, why = account.write(token, balance + amount)
    print(written and "writes " .. balance + amount or "is refused: " .. why)
    lock:unlock()
end

-- ---- the story -----------------------------------------------------------------------

local function begin(who, file, i, open, place, uris)
    return support.spawn { "luajit", file, "--add", i, open, place, who.amount, who.lease,
        stdin = "pipe", stdout = "pipe", env = support.lua_env(), unpack(uris) }
end

local function line(process)
    return assert(process:read_line(30))
end

-- @return what A was told, and what is on the account in the end
local function tell(file, i, recipe, open, uris)
    start = support.now()
    local place = recipe.create()
    local a = begin(A, file, i, open, place, uris)
    say("A %s", line(a))
    a:kill "STOP"
    say("A is stopped, just before it writes")
    local b = begin(B, file, i, open, place, uris)
    say("A's lease of %g s is over: B %s", A.lease, line(b))
    b:write "\n"
    say("B %s", line(b))
    assert(b:wait(10) == 0)
    a:kill "CONT"
    a:write "\n"
    local end_of_a = line(a)
    say("A goes on as if nothing had happened, and %s", end_of_a)
    a:wait(10)
    local balance = recipe.balance(place)
    say("on the account: %d", balance)
    return end_of_a, balance
end

-- Runs the example `file`: as one of its processes, or tells the story of its recipes.
-- @param recipes  a list of { title, create() -> place: a resource with a balance of 100,
--   checked(place) and unchecked(place) -> { read(token) -> balance, write(token, balance) ->
--   true; both: nil, "stale" when refused }, balance(place) -> what is there now }
-- @param args  the servers of the lock; none: throw-away ones are started
function _M.run(file, recipes, args)
    io.stdout:setvbuf "line"
    if args[1] == "--add" then
        local recipe = recipes[tonumber(args[2])]
        return add(recipe[args[3]], args[4], tonumber(args[5]), tonumber(args[6]),
            { unpack(args, 7) })
    end
    local uris = args[1] and { unpack(args) } or support.cluster(3, { unnamed = true }):uris()
    for i, recipe in ipairs(recipes) do
        print(recipe.title .. ", without the check")
        local _, balance = tell(file, i, recipe, "unchecked", uris)
        assert(balance == 110, "the control shows no lost update")
        print "  B's 5 are lost."
        print(recipe.title .. ", with the check")
        local told
        told, balance = tell(file, i, recipe, "checked", uris)
        assert(told == "is refused: stale" and balance == 105, "the late write was not refused")
        print "  B's 5 are there; A knows that it came too late."
    end
    support.cleanup()
end

return _M
