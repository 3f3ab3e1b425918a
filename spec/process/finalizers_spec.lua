-- Finalizers of a program's own objects that call the library while the Lua state closes: LuaJIT
-- has finalized the library's objects by then, or some of them.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"
local sys = require "spec.support.sys"

local KINDS = {
    -- Those of userdata run when those of all cdata have run.
    userdata = [[
        EACH = true
        for i = 1, 2 do
            local guard = newproxy(true)
            getmetatable(guard).__gc = try
            GUARDS[#GUARDS + 1] = guard
        end
    ]],
    -- Those of cdata run in any order with the library's: some of so many before, some after, some
    -- between.
    cdata = [[
        for i = 1, 40 do
            GUARDS[i] = require("ffi").gc(require("ffi").new "char[1]", try)
        end
    ]],
}

-- `say` prints a line. Without the compiler: LuaJIT before August 2023 never leaves a compiled loop
-- by pairs() that is entered in a finalizer (its issue 1045).
local CODE = [[
    jit.off()
    jit.flush()
    local public = require "spec.support.public_calls"
    local c = new { metrics = require("redlock.metrics").new {}, lease = 5 }
    local calls = public.prepare(redlock, c, true)
    local unused = public.prepare(redlock, new { max_waiting = 1001 })
    for _, call in ipairs(unused) do
        if not call[1]:find "^metrics" then calls[#calls + 1] = call end
    end
    calls[#calls + 1] = { "redlock.new", function()
        return new { max_waiting = 1002 }:getLock("late"):tryLock(0)
    end }
    GUARDS = {}
    local function try()
        for _, call in ipairs(calls) do
            local line = call[1] .. " " .. public.outcome(call)
            if EACH then say(line) end
        end
        say "all"
    end
]]

-- What needs no server, and answers as for any client that is closed.
local LOCAL = { ["client:close"] = true, ["client:stats"] = true, ["client:tasks"] = true }
for _, name in ipairs { "isValid", "remaining", "getHoldCount", "isHeldByCurrentThread", "votes",
    "getName", "getNames", "readLock", "writeLock", "isDone", "cancel", "isLeader", "__tostring",
    "text", "snapshot" } do
    LOCAL[name] = true
end

local UNUSED = { import = true, checkSequencer = true }

local function is_well(line)
    local call, method, outcome = line:match "^(.-[:.](%S+)) (.*)$"
    if outcome == "closed" or outcome == "cancelled" and method == "get" then
        return true
    elseif UNUSED[method] then       -- without a text of its own
        return outcome == "config"
    elseif method == "check" then            -- of a lock, which raises
        return outcome:find "redlock: closed: " ~= nil
    end
    return outcome == "value" and (LOCAL[call] or LOCAL[method] or method:find "^get") ~= nil
end

describe("finalizers that call the library while the Lua state closes", function()
    local cluster = support.shared_cluster(3)
    local nodes

    setup(function() nodes = cluster:text() end)

    -- Checks the lines of one kind of finalizers.
    local function check(kind, text)
        local wrong, all = {}, 0
        for line in text:gmatch "[^\n]+" do
            if line == "all" then
                all = all + 1
            elseif kind == "userdata" and not is_well(line) then
                wrong[#wrong + 1] = line
            end
        end
        assert.same({}, wrong)
        assert.equal(kind == "userdata" and 2 or 40, all, text:sub(-400))
    end

    local loops = { plain = [[
        HOST = require "redlock.host.plain"
        local function main(fn) fn() end
    ]] }
    for name, loop in pairs(behaviour.loops) do
        loops[name] = loop
    end
    for name, loop in pairs(loops) do
        for kind, guards in pairs(KINDS) do
            it(name .. ", of " .. kind, function()
                local p = support.lua(("NODES = %s %s %s local function say(text) print(text) end "
                    .. "main(function() %s %s os.exit(0, true) end)"):format(nodes, loop,
                    behaviour.prelude, CODE, guards), { stderr = "stdout" })
                local text = p:read_all(60)
                assert.equal(0, p:wait(10), text:sub(-400))
                check(kind, text)
                cluster:await_none("a", "f", "rw", "m1", "m2", "own", "fair")
            end)
        end
    end

    -- Twice: with loops that were compiled for other calls, and for these.
    for name, loop in pairs(loops) do
        for _, times in ipairs { 0, 100 } do
            it(name .. ", make a client as others before: " .. times, function()
                local p = support.lua(([[ NODES = %s %s %s main(function()
                    local opts = { nodes = NODES, host = HOST }
                    local function make()
                        local c = redlock.new(opts)
                        if not GUARD then c:close() end
                        local ok, err = c:getLock "late":tryLock(0)
                        c:getReadWriteLock("late", { owner = "x", fenced = true })
                        local all = redlock.wait_all { c:getLock("late", opts.of):lockAsync() }
                        return err.code, c:stats().acquired, all
                    end
                    for _ = 1, %d do make() end
                    GUARD = newproxy(true)
                    getmetatable(GUARD).__gc = function() print(make()) end
                    os.exit(0, true)
                end)]]):format(nodes, loop, behaviour.prelude, times), { stderr = "stdout" })
                assert.equal("closed\t0\ttrue\n", p:read_all(60))
                assert.equal(0, p:wait(10))
            end)
        end
    end

    for kind, guards in pairs(KINDS) do
        it("nginx, of " .. kind, function()
            local path = support.tmpdir() .. "/said"
            local ng = support.nginx { nodes = cluster, user = "root", server = ([[
                location /guard { content_by_lua_block {
                    local NODES, HOST = nodes
                    %s
                    local function say(text)
                        local f = io.open(%q, "a")
                        f:write(text, "\n")
                        f:close()
                    end
                    assert(ngx.timer.at(0, function()      -- a future goes on
                        %s %s
                        ngx.shared.shared:set("ready", true)
                    end))
                    repeat ngx.sleep(0.01) until ngx.shared.shared:get "ready"
                    ngx.print "ok"
                } }]]):format(behaviour.prelude, path, CODE, guards) }
            assert.equal("ok", ng:get("/guard", 60))
            assert.equal(0, ng:stop "QUIT")       -- TERM: its master kills it after some 3 s
            check(kind, sys.read_file(path))
            assert.equal("", (ng:complaints():gsub("[^\n]*writing a global[^\n]*\n?", "")))
            cluster:await_none("a", "f", "rw", "m1", "m2", "own", "fair")
        end)
    end
end)
