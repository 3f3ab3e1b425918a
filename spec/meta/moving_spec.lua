-- What the pages "from ..." say of locks that do, and do not, exclude each other while one moves.
local redlock = require "redlock"
local support = require "spec.support"

describe("beside Redisson", function()
    local server, uris

    setup(function()
        server = support.server()
        uris = { server.uri }
    end)
    before_each(function() server:call("FLUSHALL") end)

    -- As its RLock stores a hold.
    local function hold_as_redisson()
        server:call("HSET", "invoice:42", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", 1)
        server:call("PEXPIRE", "invoice:42", 20000)
    end

    it("the same name on one server is refused in both directions", function()
        local client = redlock.new { nodes = uris, timeout = 2 }
        hold_as_redisson()
        local ok, err = client:getLock("invoice:42"):tryLock(0)
        assert.is_nil(ok)
        assert.equal("held", err.code)
        server:call("DEL", "invoice:42")
        local lock = client:getLock "invoice:42"
        assert(lock:tryLock(5))
        local _, why = server:call("HEXISTS", "invoice:42", "x")     -- its first command
        assert.matches("^WRONGTYPE", why)
        assert(lock:unlock())
        client:close()
    end)

    it("a prefix excludes nothing", function()
        hold_as_redisson()
        local client = redlock.new { nodes = uris, timeout = 2, prefix = "lua:" }
        assert(client:getLock("invoice:42"):tryLock(5))
        client:close()
    end)
end)

describe("beside lua-resty-lock", function()
    local folder = os.getenv "RESTY_LOCK" or "/usr/share/lua/5.1"

    it("a reload has two holders, an old worker and a new one, in both directions", function()
        if not package.searchpath("resty.lock", folder .. "/?.lua") then
            return pending "no lua-resty-lock is installed (RESTY_LOCK=folder)"
        end
        local dir = support.tmpdir()
        assert(support.sh("chmod 755 " .. dir))
        local ng = support.nginx { nodes = support.cluster(3),
            http = "lua_shared_dict my_locks 1m;", init = ([[
                package.path = %q .. package.path
                local moved = io.open(%q)
                if moved then
                    moved:close()
                    local resty_lock = require "redlock.resty_lock"
                    resty_lock.use("my_locks", client)
                    package.loaded["resty.lock"] = resty_lock
                end
                function take(key)
                    local lock = require("resty.lock"):new("my_locks", { timeout = 0 })
                    local elapsed, err = lock:lock(key)
                    return elapsed and lock or nil, err or "ok"
                end
            ]]):format(folder .. "/?.lua;", dir .. "/moved"),
            server = [[
                location /take { content_by_lua_block {
                    local lock, word = take(ngx.var.arg_key)
                    ngx.print(word)
                    if lock then lock:unlock() end
                } }
                location /keep { content_by_lua_block {
                    local lock, word = take(ngx.var.arg_key)
                    ngx.shared.shared:set(ngx.var.arg_key, word)
                    repeat ngx.sleep(0.01) until ngx.shared.shared:get "go"
                    local other, other_word = take(ngx.var.arg_other)
                    if other then other:unlock() end
                    ngx.print(other_word, " ", tostring(lock:unlock()))
                } }
                location /said { content_by_lua_block {
                    ngx.print(ngx.shared.shared:get(ngx.var.arg_key)) } }
                location /go { content_by_lua_block { ngx.shared.shared:set("go", true) } }
            ]] }
        local function keep(key, other)
            local request = ng:begin(("/keep?key=%s&other=%s"):format(key, other))
            support.eventually(function() return ng:get("/said?key=" .. key) == "ok" end)
            return request
        end
        local old = keep("one", "two")
        assert.equal("timeout", (ng:get "/take?key=one"))
        assert(support.sh("touch " .. dir .. "/moved"))
        ng:reload()
        assert.equal("ok", (ng:get "/take?key=one"))
        local new = keep("two", "two")
        assert.equal("timeout", (ng:get "/take?key=two"))
        ng:get "/go"
        assert.equal("ok 1", old:finish())
        assert.equal("timeout 1", new:finish())
        ng:ends()
    end)
end)
