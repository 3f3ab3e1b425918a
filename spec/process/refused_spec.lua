-- Memory, descriptors, threads and calls on sockets are refused, one at every moment in turn:
-- callers are told, what they ask for again works, and nothing is left behind. In the day that
-- is every 60th moment, at night every one.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"

local counted = os.getenv "SPEC_CORE"           -- by `make coverage`
local RUNS = counted and { [counted .. "/refused"] = 1 }
    or os.getenv "NIGHTLY" and { ["build/spec/refused"] = 1, ["build/spec/refused-asan"] = 10 }
    or { ["build/spec/refused"] = 60, ["build/spec/refused-asan"] = 90 }

describe("what the system refuses", function()
    for program, stride in pairs(RUNS) do
        it("does no harm to " .. program:match "[^/]*$", function()
            local dir = support.certificates()
            local cluster = support.cluster(2)
            cluster[3] = support.tls_server(dir, "good")
            local p = support.spawn {
                program, "-s", os.getenv "STRIDE" or stride, "-c", dir .. "/ca.crt",
                cluster[1].port, cluster[2].port, cluster[3].tls_port,
                stdout = "pipe", stderr = "stdout",
            }
            local text = p:read_all(3600)
            assert.equal(0, p:wait(10), text)
            assert.matches("1 passed, 0 failed\n$", text)
            assert.is_true(tonumber(text:match "^(%d+) times") > 20)
            cluster:each(function(server) assert.equal(0, server:keys()) end)
        end)
    end

    -- One descriptor more each time; then memory for no script. `try` prints what is wrong.
    local CODE = [[
        local ffi = require "ffi"
        ffi.cdef [=[ int setrlimit(int, const unsigned long *); int fcntl(int, int, ...);
            void *malloc(size_t); void free(void *); ]=]
        local FILES, SPACE, MOST = 7, 9, { [7] = 1024, [9] = 2 ^ 40 }
        local function limit(what, n)
            local pair = ffi.new("unsigned long[2]", n or MOST[what], MOST[what])
            assert(ffi.C.setrlimit(what, pair) == 0)
        end
        local function free(n)           -- the limit with which n can be opened
            local fd = 0
            while n > 0 or ffi.C.fcntl(fd, 1) >= 0 do
                n, fd = ffi.C.fcntl(fd, 1) < 0 and n - 1 or n, fd + 1
            end
            return fd
        end
        local function try(what, n, fn, ...)
            local ok, got, err = pcall(fn, ...)
            if not ok or got == nil and not redlock.is_error(err) then
                print(what, n, got, err)
            end
            return ok and (got or err and err.code)
        end
        local function fresh() return new { restart_guard = false, on_event = false } end
        for n = 0, 20 do
            local c = fresh()
            limit(FILES, free(n))
            for name, kind in pairs { a = c.getLock, b = c.getFencedLock, c = c.getFairLock } do
                local l = kind(c, name)
                for _, call in ipairs { "tryLock", "isLocked", "unlock" } do
                    try(call, n, l[call], l)
                end
            end
            for _, call in ipairs { "connect", "health", "check", "locks", "releaseAll" } do
                try(call, n, c[call], c, ({ connect = 0.1, locks = "*" })[call])
            end
            limit(FILES)
            if try("again", n, function() return c:getLock("a"):tryLock(20) end) ~= true then
                print("still", n)
            end
            c:close()
        end
        local long = "return 1 --" .. ("x"):rep(65000)
        local big = { name = "big", acquire = long, release = long:gsub("x", "y"), asks = {} }
        for i = 1, 20 do big.asks["a" .. i] = { (long:gsub("x", "%%" .. i, i)) } end
        big = redlock.primitive(big)
        local c = fresh()
        assert(c:connect(20))
        local l = c:get(big, "x")
        collectgarbage() collectgarbage "stop"
        limit(SPACE, 0)
        local last, block = nil, nil     -- all that malloc has left
        repeat
            last, block = block, ffi.cast("void **", ffi.C.malloc(60000))
            if block ~= nil then block[0] = last end
        until block == nil
        local lock, ask = try("big", 0, l.tryLock, l), try("ask", 0, l.ask, l, "a1")
        while last ~= nil do
            block, last = last, ffi.cast("void **", last[0])
            ffi.C.free(block)
        end
        limit(SPACE)
        print(lock, ask, try("big", 1, l.tryLock, l, 20))
    ]]
    local loops = { plain = [[ HOST = require "redlock.host.plain"
        local function main(fn) fn() end ]] }
    for name, loop in pairs(behaviour.loops) do
        loops[name] = loop
    end
    for name, loop in pairs(loops) do
        it("is an error for a caller in " .. name, function()
            local nodes = support.cluster(3, { new = true }):text()
            local p = support.lua(("NODES = %s %s %s main(function() %s os.exit(0) end)"):format(
                nodes, loop, behaviour.prelude, CODE), { stderr = "stdout" })
            assert.equal("nomem\tnomem\ttrue\n", p:read_all(120))
        end)
    end
end)
