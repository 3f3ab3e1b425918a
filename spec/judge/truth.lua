-- What is true of a server, found by redis-cli alone, as the user of the client.
local sys = require "spec.support.sys"

local _M = {}

local LATE = 2.4              -- seconds, of two round trips

-- What redis-cli says; and how many seconds it took.
local function ask(stage, uri, ...)
    local words = { "timeout 5 redis-cli -u '" .. uri:gsub("'", "") .. "'" }
    local user, password = stage.settings.user, stage.settings.password
    if user then
        words[#words + 1] = ("--user %s --pass %s --no-auth-warning"):format(user, password)
    end
    for _, word in ipairs { ... } do
        words[#words + 1] = "'" .. word:gsub("'", "'\\''") .. "'"
    end
    local began = sys.now()
    local pipe = io.popen(table.concat(words, " ") .. " 2>&1")
    local text = pipe:read "*a"
    pipe:close()
    return text:gsub("\n+$", ""), sys.now() - began
end

local PLAIN = [[
local k = KEYS[1]
redis.call('SET', k, 'x', 'NX', 'PX', 5000)
local ok = redis.call('GET', k) == 'x' and redis.call('GETRANGE', k, 0, 9) == 'x'
return ok and 'can' or 'cannot']]
local FENCED = [[
redis.call('HSET', KEYS[1], '0', 'x')
redis.call('HMGET', KEYS[1], '0')
redis.call('MGET', KEYS[2])
return redis.call('INFO', 'replication') and 'can']]

-- Whether its marker admits it, for this client.
local function is_admitted(stage, uri)
    if stage.n == 1 then
        return ask(stage, uri, "GET", "redlock:{server}:marker") == ""
    end
    local life = ask(stage, uri, "INFO", "replication"):match "master_replid:(%x+)"
    local marker = ask(stage, uri, "GET", "redlock:{server}:marker")
    local state, of, db, lease, cluster = marker:match "^%x+ v4 (%a) (%x+) (%d+) (%d+) (%S+)$"
    return state == "a" and (not life or of == life:sub(1, 16)) and db == "0"
        and tonumber(lease) == stage.max_lease * 1000 and cluster == stage.name
end

local function knows_tokens(stage, uri)
    local marker = ask(stage, uri, "GET", "redlock:{server}:marker")
    local said = ask(stage, uri, "HMGET", "redlock:{server}:floor", "base", "most")
    return stage.n == 1 or said:find("%f[%x]" .. marker:sub(1, 8)) ~= nil
end

-- One server: whether it answers in time; may vote, too (looks); may grant plain, and fenced locks.
function _M.of(stage, uri)
    local key = "truth:" .. math.random(1e9)
    local ping = ask(stage, uri, "EXISTS", key)
    local role = ask(stage, uri, "INFO", "replication"):match "role:(%a+)"
    local cluster = ask(stage, uri, "INFO", "cluster"):find "cluster_enabled:1" ~= nil
    local sha = ask(stage, uri, "EVALSHA", ("0"):rep(40), "0")
    local once, took = ask(stage, uri, "EVAL", PLAIN, "1", key)
    if once ~= "can" then
        local load = ask(stage, uri, "SCRIPT", "LOAD", PLAIN)
        once = ask(stage, uri, "EVALSHA", load, "1", key)
    end
    local again = took > LATE and select(2, ask(stage, uri, "EVAL", PLAIN, "1", key)) or took
    local late = again > LATE
    local true_ = {}
    true_.answers = tonumber(ping) ~= nil and not late and role ~= "slave" and not cluster
        and not sha:find "unknown command" and not sha:find "NOPERM"
    true_.votes = is_admitted(stage, uri)
    true_.looks = true_.answers and true_.votes
    true_.plain = true_.looks and once == "can"
    -- Alone it counts from its clock on.
    local begins = stage.n > 1 or ask(stage, uri, "TIME"):find "^%d+" ~= nil
    true_.fenced = true_.plain and role ~= nil and begins and knows_tokens(stage, uri)
        and ask(stage, uri, "EVAL", FENCED, "2", key .. ":h", key) == "can"
    return true_
end

return _M
