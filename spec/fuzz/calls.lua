-- Random calls of every method of the public API, on a real core, under the sanitizers: with
-- awkward arguments, or of servers whose replies are garbled on their way. A call returns, or
-- raises what names its argument. Each error is one of the library's, and its text is printable.
--
--   luajit spec/fuzz/calls.lua arguments|replies SECONDS [SEED]
local what, seconds, seed = arg[1], tonumber(arg[2]), tonumber(arg[3]) or os.time() % 1e6
local uris = { unpack(arg, 4) }

if #uris == 0 then           -- starts the servers, and itself again
    local support = require "spec.support"
    local proxy = require "spec.support.proxy"
    local function library(name)
        local pipe = io.popen("${CC:-cc} -print-file-name=" .. name)
        return pipe:read "*l"
    end
    local cluster = support.cluster(3):admit(2)
    for i = 1, 3 do
        local liar = what == "replies" and proxy.proxy(cluster[i].port)
        uris[i] = (liar or cluster[i]).uri
        if liar then
            liar:seed(seed + i)
            liar:lie(20)
        end
    end
    local env = support.lua_env()
    env.LUA_CPATH = env.LUA_CPATH:gsub("/build/", "/build/asan/")
    env.LD_PRELOAD = library "libasan.so" .. " " .. library "libubsan.so"
    env.ASAN_OPTIONS, env.UBSAN_OPTIONS = "detect_leaks=0", "print_stacktrace=1"
    local p = support.spawn { "luajit", "spec/fuzz/calls.lua", what, seconds, seed, uris[1],
        uris[2], uris[3], env = env, stdout = "pipe", stderr = "stdout" }
    local text = p:read_all(seconds + 60)
    local status = p:wait(5)
    support.cleanup()
    -- Before that there may be what callbacks print, and what the library says of those that fail.
    local calls = status == 0 and text and not text:find("runtime error:", 1, true)
        and text:match "([1-9]%d* calls)\n$"
    print(calls and ("%s: %s, nothing found"):format(what, calls)
        or ("%s\n%s: found something; SEED %d"):format(text, what, seed))
    os.exit(calls and 0 or 1)
end

local ffi = require "ffi"
local public = require "spec.support.public_calls"
local redlock = require "redlock"
local uv = require "luv"

local random, huge = math.random, math.huge
math.randomseed(seed)

-- ---- awkward values ----------------------------------------------------------------

local function raises(text)
    return function() error(text, 0) end
end
local evil = setmetatable({}, { __index = raises "THEIRS", __tostring = raises "THEIRS",
    __len = raises "THEIRS", __eq = raises "THEIRS", __lt = raises "THEIRS",
    __call = raises "THEIRS", __concat = raises "THEIRS", __newindex = raises "THEIRS" })
local endless = setmetatable({}, { __index = function(t) return t end })
local cyclic = {}
cyclic.a, cyclic[1] = cyclic, cyclic
local objects = {}           -- of earlier clients, too

local VALUES = { true, false, 0, -0.0, 1, -1, 0.0004, 0.001, 0.3, 1.5, 1e-320, 1e9, 1e300, 2 ^ 31,
    2 ^ 53, 2 ^ 63, -2 ^ 63, huge, -huge, 0 / 0, "", "a", "n", "a\0b", ("x"):rep(65536),
    ("x"):rep(65537), "\27[2J\r\n", "\255\254", "%s%n%d", "{server}", "redlock:{server}:marker",
    "nan", "0x10", "5", "*", "[", "\\", "a*", "redlock1.00.00.00.00", evil, endless, cyclic, {},
    { "a" }, { "a", "a" }, { [1.5] = 1 }, { "a", nil, "b" }, { {} }, { owner = evil },
    { owner = 0 / 0 }, { owner = false }, { wait = 0 / 0 }, { lease = -1 },
    { wait = 0, lease = 0.5 }, { label = ("l"):rep(161) }, { permits = huge }, { kind = "read" },
    { ttl = huge }, { fenced = true }, { fenced = 1 }, { id = "" }, { closed_for = huge },
    { keep = true }, { force = true }, { traceparent = "00" }, print, raises "THEIRS",
    function() return 0 / 0 end, function() return evil end, io.stdout, newproxy(true),
    coroutine.create(print), 5LL, -1LL, ffi.new "int[2]", ffi.cast("void *", 0), redlock }

local function value()
    local i = random(#VALUES + 12)
    return i <= #VALUES and VALUES[i] or i % 3 == 0 and objects[random(20)] or nil
end

-- ---- what may come of a call ---------------------------------------------------------

local function fail(...)
    print(...)
    os.exit(1)
end

local INTERNAL = { "attempt to", "bad argument", "stack overflow", "not enough memory", "assertion",
    "cannot convert", "invalid value", "lua/redlock/[^\n]*$" }

local function caught(err)
    return { err = err, trace = debug.traceback() }
end

local function check(name, ok, got, err)
    if not ok then
        for _, pattern in ipairs(type(got.err) == "string" and INTERNAL or {}) do
            if got.err:find(pattern) then
                fail(name, got.err, got.trace)
            end
        end
    elseif got == nil and err ~= nil and type(err) ~= "number" then
        if not redlock.is_error(err) or tostring(err):find "[%z\1-\31\127-\255]" then
            fail(name, "no error of ours: ", err)
        end
    end
end

-- Runs a call as a coroutine of the loop, and leaves it there if it waits for long.
local timer = uv.new_timer()
local function run(name, fn, ...)
    local results, late = nil, false
    local args, n = { ... }, select("#", ...)
    coroutine.wrap(function()
        results = { xpcall(fn, caught, unpack(args, 1, n)) }
        check(name, unpack(results, 1, 3))
    end)()
    timer:start(30, 0, function() late = true end)
    while not results and not late do
        uv.run "once"
    end
    timer:stop()
    return results and results[1] and results[2] or nil
end

-- ---- the run ---------------------------------------------------------------------------

local function options()
    local o = { nodes = uris, host = require "redlock.host.luv", max_lease = 2, lease = 1,
        timeout = 0.2, connect_timeout = 0.5, patience = 0.3, fallback = 0.05, cluster = "spec",
        on_event = false }
    local rows = require "redlock.servers.options".rows
    for _ = 1, what == "arguments" and random(6) - 4 or 0 do
        local row = rows[random(#rows)]
        o[row.name] = row.name ~= "host" and value() or o[row.name]
    end
    return o
end

local calls, finish = 0, uv.now() + seconds * 1000
uv.update_time()
while uv.now() < finish do
    local ok, client = xpcall(redlock.new, caught, options())
    check("new", ok, client)
    local list = ok and run("prepare", public.prepare, redlock, client, false) or {}
    for _ = 1, #list > 0 and 80 or 0 do
        local call = list[random(#list)]
        local got
        if what == "replies" then
            got = run(call[1], call[2])
        else
            local object = random(12) == 1 and not call[1]:find "__" and value() or call.object
            got = run(call[1], call.method, object, value(), value(), value(), value())
        end
        calls = calls + 1
        objects[random(20)] = got
    end
    if ok and random(3) > 1 then
        run("close", client.close, client)
    end
    uv.update_time()
end
print(calls .. " calls")
os.exit(0)
