-- LuaJIT compiles what takes and releases a lock: nothing on that way is left to its
-- interpreter, which cost a worker of nginx a seventh of its locks per second (64 at once,
-- make bench-nginx).
local support = require "spec.support"

if os.getenv "COVERAGE_LINES" then
    return               -- lines are counted without the compiler
end

-- places_not_compiled(fn): where the compiler gave up again and again, while fn was run often,
-- for something that it does not do, like making a function. (Its counters of what runs often
-- are shared by chance with what runs once a second, where it may try, too, and give up once.)
local WATCH = [[
    local traceerr, funcinfo = require("jit.vmdef").traceerr, require("jit.util").funcinfo
    function places_not_compiled(fn)
        local places, times = {}, {}
        local function note(what, _, f, pc, code)
            if what == "abort" and traceerr[code]:find "^NYI: bytecode" then
                local place = tostring(funcinfo(f, pc).loc:match "[^/]*$")
                times[place] = (times[place] or 0) + 1
                if times[place] == 2 then
                    places[#places + 1] = place
                end
            end
        end
        fn(0)                        -- what it loads at first is loaded once
        jit.flush()
        jit.attach(note, "trace")
        for i = 1, 1000 do
            fn(i)
        end
        jit.attach(note)
        return table.concat(places, " ")
    end
]]

describe("compiled code", function()
    local cluster = support.shared_cluster(3)

    it("is what a script's cycles are", function()
        local child = support.child(cluster, "{ timeout = 5 }", WATCH .. [[
            local fenced, held = client:getFencedLock "f", client:getLock "h"
            assert(held:tryLock())
            local how = {
                control = function(i) assert((function() return i end)() == i) end,
                lease = function() assert(l:tryLock(5, 10) and l:unlock()) end,
                kept = function() assert(l:lock() and l:unlock()) end,
                new = function() assert(client:getLock("n"):lock()
                    and client:getLock("n"):unlock()) end,
                fenced = function()
                    assert(fenced:lock() and fenced:token() and fenced:unlock())
                end,
                again = function() assert(held:tryLock() and held:unlock()) end,
                look = function() assert(held:isValid() and held:remaining() > 0) held:check() end,
                extend = function() assert(held:extend()) end,
            }
            for _, name in ipairs { "control", "lease", "kept", "new", "fenced", "again", "look",
                "extend" } do
                print(name, places_not_compiled(how[name]))
            end
            client:close()
        ]], { stderr = "stdout" })
        assert.equal("ready", child:read_line(10))
        assert.matches("^control\t.*code%.lua", child:read_line(10))
        for _, name in ipairs { "lease", "kept", "new", "fenced", "again", "look", "extend" } do
            assert.equal(name .. "\t", child:read_line(60))
        end
    end)

    it("is what a request's cycles are", function()
        local ng = support.nginx { nodes = cluster, init = WATCH, server = [[
            location /cycles { content_by_lua_block {
                local how = {
                    control = function(i) assert((function() return i end)() == i) end,
                    lease = function()
                        local lock = client:getLock "x"
                        assert(lock:tryLock(5, 10) and lock:unlock())
                    end,
                    kept = function()
                        local lock = client:getLock "x"
                        assert(lock:lock() and lock:unlock())
                    end,
                }
                ngx.print(places_not_compiled(how[ngx.var.arg_how]))
            } }
        ]] }
        assert.matches("nginx%.conf", (ng:get "/cycles?how=control"))
        assert.equal("", (ng:get("/cycles?how=lease", 60)))
        assert.equal("", (ng:get("/cycles?how=kept", 60)))
        assert.equal("", ng:complaints())
        ng:stop()
    end)
end)
