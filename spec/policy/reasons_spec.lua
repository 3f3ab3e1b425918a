-- Why a server has no vote: the same words for the same reason in errors, reports and events, and
-- each sentence written in one place. What commands say: spec/judge.
local ffi = require "ffi"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

local LIFE = "3f9c0a1b2c3d4e5f"

-- Two of three servers say this in their markers; words of support.redis.
local function marked(state, words)
    return function(cluster)
        words = words or {}
        for i = 2, 3 do
            cluster[i]:mark(("%s v%d %s %s %d %d %s%s"):format(LIFE, words.version or 4, state,
                cluster[i]:life(), words.db or 0, words.max_lease or 60000,
                words.cluster or support.CLUSTER, state == "a" and "" or " "
                .. (words.observed or 0) .. " 1795691426965"))
        end
    end
end

local function rule(...)
    local rules = { ... }
    return function(cluster)
        for i = 2, 3 do
            cluster[i]:user("app", "on", ">pw", unpack(rules))
            cluster[i]:call "FLUSHALL"
        end
        cluster[1]:user("app", "on", ">pw", "~*", "&*", "+@all")
        return { user = "app", password = "pw" }
    end
end

-- For each reason: what makes it so of servers 2 and 3; returns options, or nil, and another list
-- of servers. alone: only the errors of calls say it: take(client) makes one.
local CAUSES = {
    new = function(cluster)
        cluster:each(function(server) server:call "FLUSHALL" end)
    end,
    memory_lost = marked "l",
    clock_stepped = marked "s",
    quarantine_over = function(cluster)
        marked("l", { observed = 99000 })(cluster)
        cluster[1]:admit(30)
    end,
    marker_refused = rule("%R~redlock:{server}:marker", "~x", "~redlock:*", "&*", "+@all",
        "-set", "-getset"),
    no_eval = rule("~*", "&*", "+@all", "-eval"),
    no_time = rule("~*", "&*", "+@all", "-time"),
    other_version = marked("a", { version = 5 }),
    other_database = marked("a", { db = 1 }),
    other_cluster = marked("a", { cluster = "theirs" }),
    changing = marked("l", { cluster = "change.0123456789abcdef" }),
    other_max_lease = marked("a", { max_lease = 90000 }),
    guard_off = function() return { restart_guard = false } end,
    replica = function(cluster)
        cluster[2]:call("REPLICAOF", "127.0.0.1", cluster[1].port)
        cluster[3]:call("REPLICAOF", "127.0.0.1", cluster[1].port)
    end,
    sentinel = function(cluster)
        local list = { cluster[1].uri }
        for i = 2, 3 do
            local port, dir = support.free_port(), support.tmpdir()
            assert.is_true(support.sh(("printf 'bind 127.0.0.1\nport %d\n' > %s/s.conf")
                :format(port, dir)))
            support.spawn { "redis-server", dir .. "/s.conf", "--sentinel", stdout = "null" }
            support.eventually(function() return support.connect(port) end)
            list[i] = "redis://127.0.0.1:" .. port
        end
        return nil, list
    end,
    balancer = function(cluster)
        local two, three = cluster[2].port, cluster[3].port
        return nil, { cluster[1].uri, support.proxy(two, three).uri, support.proxy(three, two).uri }
    end,
    cluster_mode = function(cluster)
        local list = { cluster[1].uri }
        for i = 2, 3 do
            list[i] = support.server { new = true, args = { "--cluster-enabled", "yes",
                "--cluster-config-file", "n.conf" } }.uri
        end
        return nil, list
    end,
    twin = function(cluster)
        local host = cluster[1].uri:gsub("127.0.0.1", "localhost")
        return nil, { cluster[1].uri, host, (host:gsub("localhost", "127.0.0.2")) }
    end,
}

local ALONE = {
    life_unknown = { rule("~*", "&*", "+@all", "-info"), function(client)
        return client:getFencedLock("x"):tryLock(0)
    end },
    tokens_forgotten = { function(cluster)
        for i = 2, 3 do                          -- beyond what any clock allows
            local floor = cluster[i]:memory() .. "99999999999998"
            cluster[i]:call("HSET", "redlock:{server}:floor", "base", floor, "most", floor)
        end
    end, function(client)
        return client:getFencedLock("x"):tryLock(0)
    end },
    bad_reply = { function() end, function(client)
        local odd = redlock.primitive { name = "odd", acquire = "return 'yes'",
            release = "return 0" }
        return client:get(odd, "x"):tryLock(0)
    end },
}

-- A sentence without what may have changed since: numbers, and which of two addresses came first.
local function plain(text)
    return (text:gsub("localhost", "127.0.0.1"):gsub("%d[%d.]*", "N"))
end

local function says(text, sentence, where)
    assert.is_truthy(plain(text):find(plain(sentence), 1, true),
        ("%s lacks %q:\n%s"):format(where, sentence, text))
end

-- Takes a lock until the error names the reason.
-- @return the row that does
local function row_of(client, name, take)
    local row, err
    support.eventually(function()
        local _
        _, err = (take or function() return client:getLock("x"):tryLock(0) end)(client)
        for _, found in ipairs(err and err.nodes or {}) do
            row = found.why == name and found or row
        end
        return row
    end, 20, "an error for " .. name)
    return row
end

describe("a server without a vote", function()
    for name, cause in pairs(CAUSES) do
        it("is told of in the same words everywhere: " .. name, function()
            local cluster, events = support.cluster(3, { new = true }), {}
            if name ~= "new" then
                cluster:admit()
            end
            local options, list = cause(cluster)
            options = options or {}
            options.on_event = function(e) events[#events + 1] = e end
            local client = support.client(list or cluster, options)
            local row = row_of(client, name)
            local sentence, found = row.message, nil
            for _, server in ipairs(assert(client:check())) do
                found = server.node == row.node and server or found
            end
            assert.equal(name, found.why)
            says(found.remedy, sentence, "check()")
            for _, e in ipairs(events) do
                found = e.message and plain(e.message) == plain(sentence) and e.type or found
            end
            assert.equal("string", type(found), "no event says " .. sentence)
            client:close()
        end)
    end

    for name, row in pairs(ALONE) do
        it("is told of in an error: " .. name, function()
            local cluster = support.cluster(3, { new = true }):admit()
            local client = support.client(cluster, row[1](cluster) or {})
            local said = row_of(client, name, row[2])
            assert.matches("%l%l%l+ %l", said.message)
        end)
    end

    it("is told what to do about an older version", function()
        local cluster = support.cluster(3, { new = true }):admit()
        marked("a", { version = 3 })(cluster)
        local client = support.client(cluster)
        assert.matches("an older version of redlock used it %(marker v3%): stop its programs",
            row_of(client, "other_version").message)
        for i = 2, 3 do                              -- the remedy
            cluster[i]:call("DEL", "redlock:{server}:marker")
        end
        assert(row_of(client, "new"))
    end)

    it("has one of these reasons", function()
        local C, seen = require("redlock.runtime.ffi").load(), 0
        for why = 1, tonumber(C.RL_WHYS) - 1 do
            local name = ffi.string(C.rl_why_name(why))
            assert.is_truthy(CAUSES[name] or ALONE[name], name)
            seen = seen + 1
        end
        for _, list in ipairs { CAUSES, ALONE } do
            for _ in pairs(list) do
                seen = seen - 1
            end
        end
        assert.equal(0, seen)
        assert.equal("none", ffi.string(C.rl_why_name(0)))
        assert.equal("unknown", ffi.string(C.rl_why_name(C.RL_WHYS)))
    end)

    -- A round is told of when its causes may be gone.
    it("is told by its reason also when that has passed", function()
        local client = support.warm_client(support.cluster(3))
        local answers = require "redlock.runtime.answers"
        local C = require("redlock.runtime.ffi").load()
        for why = 1, tonumber(C.RL_WHYS) - 1 do
            local text = require("redlock.runtime.reasons").text(client, 2,
                answers.node_info(client, 2), why)
            assert.is_string(text)
        end
    end)

    it("is told of in sentences that are written once", function()
        local path = "lua/redlock/runtime/reasons.lua"
        local all = {}
        for file in io.popen "find c lua/redlock -name '*.[ch]' -o -name '*.lua'":lines() do
            all[#all + 1] = file ~= path and sys.read_file(file):gsub("/%*.-%*/", "")
                :gsub("%-%-[^\n]*", "") or nil
        end
        all = table.concat(all)
        local n = 0
        for words in sys.read_file(path):match "\nlocal SENTENCES.-\n}":gmatch '"([^"\n]+)"' do
            n = n + (#words >= 16 and 1 or 0)
            assert.is_nil(#words >= 16 and all:find(words:sub(1, 28), 1, true) or nil, words)
        end
        assert.is_true(n > 20)
    end)
end)
