-- What is true of a server, found by redis-cli alone, as the user of the client.
local sys = require "spec.support.sys"

local _M = {}

local LATE = 0.2              -- seconds that two round trips may take longer than programs wait

local function quoted(word)
    return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- What redis-cli says; and how many seconds it took. lines: commands, a line each.
local function ask_in(stage, uri, lines, ...)
    local words = { "printf %s " .. quoted(lines) .. " | timeout 5 redis-cli -u " .. quoted(uri) }
    local user, password = stage.settings.user, stage.settings.password
    if stage.settings.ca_file then
        words[#words + 1] = "--cacert " .. stage.settings.ca_file
    end
    if password then
        words[#words + 1] = (user and "--user " .. user or "") .. " --no-auth-warning --pass "
            .. password
    end
    for _, word in ipairs { ... } do
        words[#words + 1] = quoted(word)
    end
    local began = sys.now()
    local pipe = io.popen(table.concat(words, " ") .. " 2>&1")
    local text = pipe:read "*a"
    pipe:close()
    text = text:match "^AUTH failed: (.*)" or text       -- it goes on without
    return text:gsub("\n+$", ""), sys.now() - began
end

local function ask(stage, uri, ...)
    return ask_in(stage, uri, "", ...)
end

local PLAIN = [[
local k = KEYS[1]
redis.call('SET', k, 'x', 'NX', 'PX', 5000)
local ok = redis.call('GET', k) == 'x' and redis.call('GETRANGE', k, 0, 9) == 'x'
return ok and 'can' or 'cannot']]
local TAKE = "redis.call('SET', KEYS[1], 'x', 'NX', 'PX', 5000) return 'can'"
local FENCED = [[
redis.call('SET', KEYS[2], 'x', 'NX', 'PX', 5000)
redis.call('GETRANGE', KEYS[2], 0, 9)
redis.call('HSET', KEYS[1], '0', 'x')
redis.call('HMGET', KEYS[1], '0')
redis.call('MGET', KEYS[2])
return redis.call('INFO', 'replication') and 'can']]

-- Whether its marker admits it, for this client. how: the command that reads it.
local function is_admitted(stage, uri, how)
    local life = ask(stage, uri, "INFO", "replication"):match "master_replid:(%x+)"
    local marker = ask(stage, uri, how, "redlock:{server}:marker")
    if stage.n == 1 then                 -- without a marker; none is needed
        return not marker:find "^%x+ v%d"
    end
    local state, of, db, lease, cluster = marker:match "^%x+ v4 (%a) (%x+) (%d+) (%d+) (%S+)$"
    return state == "a" and (not life or of == life:sub(1, 16)) and db == "0"
        and tonumber(lease) == stage.max_lease * 1000 and cluster == stage.name
end

local function knows_tokens(stage, uri)
    local marker = ask(stage, uri, "MGET", "redlock:{server}:marker")
    local said = ask(stage, uri, "HMGET", "redlock:{server}:floor", "base", "most")
    return stage.n == 1 or said:find("%f[%x]" .. marker:sub(1, 8)) ~= nil
end

-- The commands of locks, with harmless arguments.
local COMMANDS = { "SET K x", "GET K", "GETRANGE K 0 0", "PTTL K", "PEXPIRE K 1000", "DEL K",
    "PUBLISH K x", "HSET K:h 0 x", "HMGET K:h 0", "MGET K", "TYPE K", "SCAN 0 COUNT 0",
    "EVAL 0 0", "EVALSHA 0 0", "PING", "CLIENT ID", "TIME", "INFO replication" }

-- The commands that this user must not use, or that have another name: a set.
local function denied(stage, uri, key)
    local words, i = {}, 1
    local lines = (table.concat(COMMANDS, "\nECHO next\n") .. "\n"):gsub("%f[%w]K%f[%W]", key)
    for line in (ask_in(stage, uri, lines) .. "\n"):gmatch "([^\n]*)\n" do
        if line == "next" or line:find "'echo' command" then
            i = i + 1
        elseif line:find "run the '" or line:find "unknown command" then
            words[(COMMANDS[i] or ""):match("^%u*"):lower()] = true
        end
    end
    return words
end

-- One server: whether it answers in time; also about a key (reaches); and may vote (looks), and
-- metrics count its vote (counted); grants a lock, plain or fenced; and keeps it (plain, fenced).
function _M.of(stage, uri)
    local key = "truth:" .. math.random(1e9)
    local ping, took = ask(stage, uri, "EXISTS", key)
    if not tonumber(ping) and (took >= 5 or not ping:find "^[A-Z][A-Z]") then
        return {}                        -- no answer: why ask more
    end
    local function run_id()
        return ask(stage, uri, "INFO", "server"):match "run_id:(%x+)"
    end
    -- Whether a script does what it should.
    local function can(script, n, ...)
        if ask(stage, uri, "EVAL", script, n, ...) == "can" then
            return true
        end
        local load = ask(stage, uri, "SCRIPT", "LOAD", script)
        return ask(stage, uri, "EVALSHA", load, n, ...) == "can"
    end
    local function is_late()
        return select(2, ask(stage, uri, "GET", key)) > 2 * stage.settings.timeout + LATE
    end
    local late = is_late() and is_late()
    local role = ask(stage, uri, "INFO", "replication"):match "role:(%a+)"
    local is = { denied = denied(stage, uri, key), run_id = run_id() }
    local same = is.run_id == run_id()
    local master = same and role ~= "slave"
        and not ask(stage, uri, "INFO", "cluster"):find "cluster_enabled:1"
    is.answers = not late and master and can("return 'can'", "0")
    is.reaches = is.answers and can("return 'can'", "1", key)
    local connects = tonumber(ping) or ping:find "^NOPERM" or ping:find "^LOADING"
    is.counted = connects and master and is_admitted(stage, uri, "GET")
    is.looks = is.reaches and is.counted
    is.granted = is.looks and can(TAKE, "1", key .. ":g")
    is.plain = is.looks and not is.denied.evalsha and can(PLAIN, "1", key)
    -- Alone it counts from its clock on.
    local begins = stage.n > 1 or not is.denied.time and not is.denied.get
    is.granted_fenced = is.answers and role ~= nil and begins and is_admitted(stage, uri, "MGET")
        and knows_tokens(stage, uri) and can(FENCED, "2", key .. ":h", key .. ":f")
    is.fenced = is.plain and is.granted_fenced and not is.denied.eval
    return is
end

return _M
