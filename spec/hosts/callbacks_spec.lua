-- Every public call from every function that users give to the library, on every host.
local behaviour = require "spec.support.behaviour"
local support = require "spec.support"

-- Each function is called once, and tries all calls on the client that calls it.
local CODE = [[
    local public = require "spec.support.public_calls"
    local clients = 0
    local function with(opts, give)
        clients = clients + 1
        opts.lease, opts.max_waiting = 1, 1000 + clients       -- a core of its own
        local c, calls, came, done
        local function try()
            if calls and not came then
                came = true
                for _, call in ipairs(calls) do
                    say(("%s %s %s"):format(opts.what, call[1], public.outcome(call)))
                end
                done = true
            end
        end
        local poke = give(opts, try, function() return c end)
        c = redlock.new { nodes = NODES, host = HOST, cluster = "spec", lease = 1, timeout = 20,
            prefix = PLACE .. opts.what, connect_timeout = 20, on_event = opts.on_event }
        calls = public.prepare(redlock, c, true)
        poke()
        local l, from = c:getLock("poked", { owner = "me" }), now()
        while not done and now() - from < 60 do     -- in a plain script a call tells
            l:isValid()
            sleep(0.02)
        end
        c:close()
        say(opts.what .. (done and " done" or " late"))
    end

    local function short(get, use)
        return function()
            local l = get():getLock("short", { owner = "me" })
            local ok = l:tryLock(20, 0.5)        -- the function closes the client in the end
            if use then use(ok and l) end
        end
    end

    with({ what = "on_event" }, function(opts, try, get)
        opts.on_event = function(e) if e.type == "lost" then try() end end
        return short(get)
    end)
    with({ what = "on_event-of-a-call" }, function(opts, try, get)
        opts.on_event = function(e)
            if e.type == "acquired" and e.name == "short" then try() end
        end
        return short(get)
    end)
    with({ what = "onLost" }, function(_, try, get)
        return short(get, function(l) assert(l:onLost(try)) end)
    end)
    with({ what = "onEnding" }, function(_, try, get)
        return short(get, function(l) assert(l:onEnding(0.4, try)) end)
    end)
    for _, what in ipairs { "on_elected", "on_lost" } do
        with({ what = what }, function(_, try, get)
            return function()
                local term, err = get():getElection("post", { id = "me", [what] = try })
                    :campaign(20)
                assert(term or err.code == "closed", err)    -- on_elected closes the client
                new({ prefix = PLACE .. what }):getFencedLock("post"):forceUnlock()
            end
        end)
    end
    with({ what = "observe" }, function(_, try, get)
        return function()
            local future = get():getElection("post", { id = "me" }):observe(try)
            if HOST.name == "plain" then future:get(60) end
        end
    end)
    with({ what = "using" }, function(_, try, get)
        return function() get():using("u", { wait = 20 }, try) end
    end)
    with({ what = "once" }, function(_, try, get)
        return function() get():once("o", 60, try) end
    end)
]]

-- What asks the servers, and so cannot be done in on_event.
local ASKS = {}
for _, name in ipairs { "campaign", "leader", "extend", "forceUnlock", "holder", "isLocked",
    "remainTimeToLive", "connect", "init", "locks", "getCount", "availablePermits", "export" } do
    ASKS[name] = true
end

local function is_well(what, call, outcome)
    local method = call:match ":(.*)$"
    local raised = method == "check" and (outcome:find "not_held" or outcome:find "lost")
    if not raised and outcome:find "redlock" and not outcome:find "^[%a_]+$" then
        return false
    elseif what:find "^on_event" then
        return not ASKS[method] or outcome ~= "value"
    end
    return outcome ~= "phase"
end

describe("every public call from every function of users", function()
    local running, nginx = {}, nil

    local function check(text)
        local wrong, done, phases = {}, 0, 0
        for line in text:gmatch "[^\n]+" do
            local what, call, outcome = line:match "^(%S+) (.-:%S+) (.*)$"
            done = done + (line:find " done$" and 1 or 0)
            phases = phases + (outcome == "phase" and 1 or 0)
            if not (what and is_well(what, call, outcome) or line:find " done$") then
                wrong[#wrong + 1] = line
            end
        end
        assert.same({}, wrong)
        assert.equal(9, done, text:sub(-400))
        assert.is_true(phases >= 30, phases .. " calls could not wait in on_event")
    end

    local loops = { plain = [[
        HOST = require "redlock.host.plain"
        local sleep = require("spec.support.sys").sleep
        local function main(fn) fn() end
    ]] }
    for name, loop in pairs(behaviour.loops) do
        loops[name] = loop
    end
    -- All hosts side by side, as most of the time is waited.
    setup(function()
        local cluster = support.cluster(3)
        for name, loop in pairs(loops) do
            -- At once in the end: nobody reads before.
            running[name] = support.lua(([[NODES, PLACE = %s, %q %s %s local said = {}
                local function say(text) said[#said + 1] = text end
                main(function() %s print(table.concat(said, "\n")) %s end)
            ]]):format(cluster:text(), name, loop, behaviour.prelude, CODE,
                name == "plain" and "" or "os.exit(0)"), { stderr = "stdout" })
        end
        nginx = support.nginx { nodes = cluster, server = ([[
            location /all { content_by_lua_block {
                local NODES, PLACE, HOST, sleep = nodes, "nginx", client.host, ngx.sleep
                local said = {}
                local function say(text) said[#said + 1] = text end
                %s %s
                ngx.print(table.concat(said, "\n"))
                ngx.exit(200)
            } }]]):format(behaviour.prelude, CODE) }
        running.nginx = nginx:begin "/all"
    end)

    for name in pairs(loops) do
        it(name, function()
            local text = running[name]:read_all(100)
            assert.equal(0, running[name]:wait(10), text:sub(-400))
            check(text)
        end)
    end

    it("nginx", function()
        check((running.nginx:finish(100)))
        assert.equal(0, nginx:stop "TERM")
    end)
end)
