-- redlock.resty_lock returns what lua-resty-lock is documented to return; and, where that can be
-- had, what it does return: RESTY_LOCK and MLCACHE name the lib/ folders of lua-resty-lock and
-- lua-resty-mlcache, if nginx does not find them anyway.
local support = require "spec.support"

-- What is done, and what it says: a pattern. `new(opts)` makes a lock; every row has its own key.
local TABLE = {
    { "a lock that is free", [[local l = new() say(l:lock(key)) say(l:unlock())]], "0; 1" },
    { "nothing to unlock", [[local l = new() say(l:unlock()) l:lock(key) l:unlock()
        say(l:unlock())]], "nil unlocked; nil unlocked" },
    { "an object that has a lock", [[local l = new() l:lock(key) say(l:lock(key))
        say(l:lock(key .. 2)) say(l:unlock())]], "nil locked; nil locked; 1" },
    { "a lock of another object", [[local a, b = new(), new { timeout = 0.05 } a:lock(key)
        say(b:lock(key)) say(b:unlock()) say(a:unlock()) say(b:lock(key)) say(b:unlock())]],
        "nil timeout; nil unlocked; 1; 0; 1" },
    { "no patience", [[local a, b = new { timeout = 0 }, new { timeout = 0 } say(a:lock(key))
        say(b:lock(key)) say(a:unlock())]], "0; nil timeout; 1" },
    { "a wait", [[local a, b = new(), new() a:lock(key)
        ngx.thread.spawn(function() ngx.sleep(0.1) a:unlock() end)
        say(b:lock(key)) say(b:unlock())]], "[%d.]*[1-9]; 1" },
    { "other options of a wait", [[local a, b = new(), new { step = 0.01, ratio = 3,
        max_step = 0.02 } a:lock(key)
        ngx.thread.spawn(function() ngx.sleep(0.1) a:unlock() end)
        say(b:lock(key)) say(b:unlock())]], "[%d.]*[1-9]; 1" },
    { "a lock that ends by itself", [[local a, b = new { exptime = 1 }, new() say(a:lock(key))
        say(b:lock(key)) say(b:unlock())]], "0; [%d.]*[1-9]; 1" },
    { "a timeout that is cut to exptime", [[local a, b = new(), new { exptime = 0.1, timeout = 600 }
        a:lock(key) say(b:lock(key)) say(a:unlock())]], "nil timeout; 1" },
    { "a lock that is collected", [[local b = new() do local a = new() say(a:lock(key)) a = nil end
        for _ = 1, 3 do collectgarbage() end
        local elapsed, err = b:lock(key) say(type(elapsed), err) say(b:unlock())]],
        "0; number; 1" },
    { "a lock that was just collected, without patience", [[local b = new { timeout = 0 }
        for i = 1, 5 do
            do local a = new() assert(a:lock(key .. i)) a = nil end
            collectgarbage()
            assert(b:lock(key .. i))
            assert(b:unlock())
        end say "free"]], "free" },
    { "no key", [[local l = new() say(l:lock()) say(l:lock(false)) say(l:lock "")
        say(l:lock(("x"):rep(65536))) say(l:unlock())]],
        "nil nil key; nil nil key; nil empty key; nil key too long; nil unlocked" },
    { "a number as key", [[local a, b = new(), new { timeout = 0 } say(a:lock(7)) say(b:lock "7")
        say(a:unlock())]], "0; nil timeout; 1" },
    { "another dictionary", [[local a, b = new(), resty_lock:new "other" say(a:lock(key))
        say(b:lock(key)) say(a:unlock()) say(b:unlock())]], "0; 0; 1; 1" },
    { "more time", [[local a, b = new { exptime = 2 }, new { timeout = 4 } say(a:lock(key))
        say(a:expire(20)) say(b:lock(key)) say(a:unlock())]], "0; true; nil timeout; 1" },
    { "the same time once more", [[local a = new { exptime = 2 } say(a:lock(key))
        say(a:expire()) say(a:unlock())]], "0; true; 1" },
    { "more time for nothing", [[local l = new() say(l:expire()) l:lock(key) l:unlock()
        say(l:expire(1))]], "nil unlocked; nil unlocked" },
    { "more time too late", [[local l = new { exptime = 0.1 } l:lock(key) ngx.sleep(0.2)
        say(l:expire()) say(l:lock(key))]], "nil not found; nil locked" },
    { "a lock from one phase, or thread, in another", [[local l = new()
        ngx.thread.wait(ngx.thread.spawn(function() say(l:lock(key)) end))
        ngx.timer.at(0, function() l:unlock() end) local b = new() b:lock(key) say(b:unlock())
        say(l:unlock())]], "0; 1; nil unlocked" },
}

local PAGE = [[
location /%d { content_by_lua_block {
    local resty_lock = require(ngx.var.arg_module)
    local key, out = ngx.var.arg_module .. "%d", {}
    local function new(opts)
        return assert(resty_lock:new("shared", opts))
    end
    local function say(a, b)
        out[#out + 1] = tostring(a) .. (b ~= nil and " " .. tostring(b) or "")
    end
    %s
    ngx.print(table.concat(out, "; "))
} }]]

-- Where a module of others is: a folder of a variable, or where nginx looks.
local function folder_of(module, variable)
    local folders = { os.getenv(variable), "/usr/share/lua/5.1",
        "/usr/local/openresty/lualib", "/usr/local/share/lua/5.1" }
    for _, folder in pairs(folders) do
        if package.searchpath(module, folder .. "/?.lua") then
            return folder
        end
    end
end

describe("redlock.resty_lock", function()
    local ng, cluster
    local theirs = folder_of("resty.lock", "RESTY_LOCK")
    local mlcache = folder_of("resty.mlcache", "MLCACHE")

    setup(function()
        cluster = support.cluster(3)
        local pages = {}
        for i, row in ipairs(TABLE) do
            pages[i] = PAGE:format(i, i, row[2])
        end
        ng = support.nginx { nodes = cluster, workers = 2, server = table.concat(pages, "\n") .. [[
            location /own { content_by_lua_block {
                local resty_lock = require "redlock.resty_lock"
                local function say(a, b) ngx.say(tostring(a), " ", tostring(b)) end
                local l = resty_lock:new(client, { exptime = 1.2 })
                say(l:lock "own") say(client:getLock("own"):isLocked())
                say(client:getLock("shared:own"):isLocked())
                say(tostring(l):gsub("%d%.%d s", "n s"))
                ngx.sleep(1.3) say(l:unlock()) say(l:unlock()) say(l)
                say(resty_lock:new(client, { exptime = 0 / 0 }))
                say(resty_lock:new(client, { exptime = "1" }))
                l = resty_lock:new(client, { exptime = 0 })
                say(l:lock "own") say(l:expire(61)) say(l:unlock())
                say(l:lock "redlock:{x}:fence")
                say(resty_lock:new(client, { exptime = 0.001 }) ~= nil)
                local down = resty_lock:new(redlock.new { nodes = "redis://127.0.0.1:1" },
                    { timeout = 0.1 })
                say(down:lock "x")
                say(pcall(resty_lock.use, "x", "y"))
                say(pcall(resty_lock.use))
            } }
            location /two { content_by_lua_block {
                local resty_lock = require "redlock.resty_lock"
                local l, out = resty_lock:new "shared", {}
                local threads = {}
                for i = 1, 2 do
                    threads[i] = ngx.thread.spawn(function() out[i] = { l:lock("two" .. i) } end)
                end
                for i = 1, 2 do ngx.thread.wait(threads[i]) end
                local has = out[1][1] and 1 or 2
                ngx.print(out[has][1], " ", out[3 - has][2], " ", l:unlock())
                for i = 1, 2 do
                    ngx.print(" ", (resty_lock:new("shared", { timeout = 0 }):lock("two" .. i)))
                end
            } }
            location /cached { content_by_lua_block {
                local cache = assert(require("resty.mlcache").new("c", "cache", {
                    shm_locks = "shared", resty_lock_opts = { timeout = 20 } }))
                local value, err = cache:get("k", nil, function()
                    ngx.shared.other:incr("calls", 1, 0)
                    ngx.sleep(0.5)
                    return "news"
                end)
                ngx.print(value or err, " ", ngx.shared.other:get "calls")
            } }
            location /cached_errors { content_by_lua_block {
                local mlcache = require "resty.mlcache"
                local function new(locks, opts)
                    return mlcache.new("e", "cache", { shm_locks = locks, resty_lock_opts = opts,
                        resurrect_ttl = 10 })
                end
                local cache = new("shared", { exptime = 0.1 })
                ngx.say(select(2, cache:get("slow", nil, function() ngx.sleep(0.3) return 1 end)))
                ngx.say(cache:get("slow", nil, error))
                cache:get("stale", { ttl = 0.1 }, function() return 1 end)
                ngx.sleep(0.2)
                ngx.say(select(2, new("down", { timeout = 0.1 }):get("stale", nil, error)))
            } }]],
            http = "lua_shared_dict other 1m; lua_shared_dict cache 1m; lua_shared_dict down 1m;",
            init = ([[
                package.path = %q .. package.path
                local resty_lock = require "redlock.resty_lock"
                resty_lock.use("shared", client)
                resty_lock.use("other", client)
                resty_lock.use("down", redlock.new { nodes = "redis://127.0.0.1:1" })
                if %s then
                    package.loaded["resty.lock"] = resty_lock
                    require "resty.mlcache"
                    package.loaded["resty.lock"] = nil
                end
            ]]):format((theirs and theirs .. "/?.lua;" or "")
                .. (mlcache and mlcache .. "/?.lua;" or ""), tostring(mlcache ~= nil)) }
    end)
    teardown(function() ng:ends "QUIT" end)

    local function returns(i, row, module)
        local said = ng:get(("/%d?module=%s"):format(i, module), 60)
        assert.matches("^" .. row[3] .. "$", said)
    end

    for i, row in ipairs(TABLE) do
        it("answers as documented: " .. row[1], function()
            returns(i, row, "redlock.resty_lock")
        end)
    end

    it("answers as lua-resty-lock does", function()
        if not theirs then
            return pending "no lua-resty-lock is installed (RESTY_LOCK=folder)"
        end
        for i, row in ipairs(TABLE) do
            returns(i, row, "resty.lock")
        end
    end)

    -- Where nothing may wait, as in a balancer, lua-resty-lock can take a free lock.
    it("leaves to lua-resty-lock what is not bound", function()
        local try = [[
            local words = {}
            for _, name in ipairs { "shared", "unbound", "gone", "nowhere" } do
                local lock, err = require("resty.lock"):new(name, { timeout = 0, exptime = 9 })
                local elapsed
                if lock then elapsed, err = lock:lock "key" end
                words[#words + 1] = elapsed or err:match "^redlock: %w+" or err
                if elapsed then lock:unlock() end
            end
            ngx.shared.shared:set(ngx.get_phase(), table.concat(words, ", "))
        ]]
        local other = support.nginx { nodes = cluster, init_worker = try,
            http = ([[lua_shared_dict unbound 1m; lua_shared_dict gone 1m;
                upstream be { server 127.0.0.1:1; balancer_by_lua_block { %s ngx.exit(503) } }]])
                :format(try),
            init = ([[
                package.path = %q .. package.path
                local resty_lock = require "redlock.resty_lock"
                resty_lock.use("shared", client)
                resty_lock.use("gone", client) resty_lock.use("gone", nil)
                package.loaded["resty.lock"] = resty_lock
            ]]):format(theirs and theirs .. "/?.lua;" or ""),
            server = ([[location /try { content_by_lua_block { %s } }
                location /balanced { proxy_pass http://be; }
                location /said { content_by_lua_block {
                    ngx.print(ngx.shared.shared:get(ngx.var.arg_phase)) } }
            ]]):format(try) }
        other:get "/try"
        other:get "/balanced"
        local not_bound = "dictionary not bound: call use(name, client), or install lua-resty-lock"
        local rest = theirs and "0, 0, dictionary not found" or not_bound .. ", " .. not_bound
            .. ", " .. not_bound
        other:says("/said?phase=init_worker", "timeout, " .. rest)
        other:says("/said?phase=balancer", "timeout, " .. rest)
        other:says("/said?phase=content", "0, " .. rest)
        other:ends("QUIT", "while connecting to upstream")
    end)

    it("has the cluster's locks, and says what those say", function()
        local said = ng:get("/own", 60)
        local lines = {}
        for line in said:gmatch "[^\n]+" do
            lines[#lines + 1] = line
        end
        local expected = {
            "0 nil", "true nil", "false nil", "resty_lock%(lock%(own, held, n s%)%) 1",
            "nil redlock: expired: lock 'own': the lease has ended.*", "nil unlocked",
            "resty_lock%(unlocked%) nil",
            "nil bad exptime: a number of seconds is needed",
            "nil bad exptime: a number of seconds is needed",
            "0 nil", "true nil", "1 nil",
            "nil redlock: bad name: keys that begin with 'redlock:{' .*", "true nil",
            "nil redlock: no_quorum: .*127.0.0.1:1 refused.*",
            "false .*bad client: one made by redlock.new is needed, not string",
            "false .*bad dict_name: a string is needed, not nil",
        }
        for i, pattern in ipairs(expected) do
            assert.matches("^" .. pattern .. "$", lines[i])
        end
        assert.equal(#expected, #lines)
    end)

    it("has one lock at a time, also of two light threads that share it", function()
        assert.equal("0 locked 1 0 0", ng:get("/two", 60))
    end)

    it("carries lua-resty-mlcache, unchanged", function()
        if not mlcache then
            return pending "no lua-resty-mlcache is installed (MLCACHE=folder)"
        end
        local requests = {}
        for i = 1, 12 do
            requests[i] = ng:begin "/cached"
        end
        for i = 1, 12 do
            assert.equal("news 1", (requests[i]:finish(60)))
        end
        local late, value, down = ng:get("/cached_errors", 60):match "^(.-)\n(.-)\n(.-)\n$"
        assert.matches("^could not unlock callback: redlock: expired: ", late)
        assert.matches("^1", value)
        assert.matches("^could not acquire callback lock: redlock: no_quorum: ", down)
    end)
end)
