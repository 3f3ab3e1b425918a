--- For client:check(): whether locks can be taken, kept and released, which is tried on each server
-- with a lock of its own; and whether clients with another list of servers are connected.

local each = require "redlock.core.each"
local ffi = require "ffi"
local floors = require "redlock.policy.floors"
local load = require("redlock.core.ffi").load
local node_codes = require "redlock.core.node_codes"
local script_text = require "redlock.core.script_text"

local ipairs, pairs = ipairs, pairs
local format, gmatch, gsub, match, concat = string.format, string.gmatch, string.gsub,
    string.match, table.concat

local _M = {}

local LISTED = 2000           -- of more connections a server is not asked who they are

-- What cannot be done without a command; error: no lock can be taken at all.
local MISSED = {
    SET = { "no lock can be taken", error = true },
    GET = { "locks cannot be looked at, extended or released", error = true },
    PTTL = { "leases are not extended" },
    PEXPIRE = { "leases are not extended" },
    DEL = { "released locks stay closed until their lease is over" },
    PUBLISH = { "waiters are not woken by a release, and ask from time to time" },
}

-- These are for fenced locks alone. Who has none of them wants plain locks.
local FENCED = { MGET = true, HGET = true, HMGET = true, HSET = true }
local FENCED_ALL = 4

local script                  -- read when somebody asks

local function finding(verdict, user, what, why, missed)
    return { kind = "trial", verdict = verdict, message = format("a lock was tried as user %s, and "
        .. "%s failed (%s): %s", user or "default", what, why, missed) }
end

-- What follows from the commands that failed on one server.
-- @param failed  by command: why
-- @param found   function(finding)
local function judge(failed, user, found)
    local fenced, why = {}, nil
    for command, text in pairs(failed) do
        local missed = MISSED[command]
        if missed then
            found(finding(missed.error and "error" or "warning", user, command, text, missed[1]))
        elseif FENCED[command] then
            fenced[#fenced + 1], why = command, text
        end
    end
    if #fenced > 0 and #fenced < FENCED_ALL then
        found(finding("warning", user, concat(fenced, ", "), why, "there are no fenced locks, of "
            .. "which redlock run takes one unless it has --plain"))
    end
end

-- A server that did not run the script, though it is connected.
local function refused(answer, user, found)
    local code = node_codes[answer.code]
    if code and not code.silent then
        found(finding("error", user, "EVAL or EVALSHA", answer.message, MISSED.SET[1]))
    end
end

-- Asks servers to take the lock, and then to release it.
-- @param rows  of client:check(): those that are ready are asked
-- @return a list of { place, failed, answer: the last one }
local function ask(client, rows)
    local o, servers = client.options, {}
    local name = o.prefix .. "redlock:check"
    script = script or script_text.read "redlock.scripts.check.trial"
    for i, row in ipairs(rows) do
        servers[#servers + 1] = row.ready and { place = i, failed = {} } or nil
    end
    for _, leg in ipairs { "take", "release" } do    -- the first by EVAL, the second by EVALSHA
        local asked = {}
        for i, server in ipairs(servers) do
            asked[i] = { place = server.place, keys = { name }, args = { leg, format(
                "redlock:{%s}:fence", name), floors.KEY, format("redlock:{%s}:free", name) } }
        end
        for i, answer in ipairs(each.ask(client, script, asked)) do
            local server = servers[i]
            if not server.answer or server.answer.data then      -- else it has refused the first
                server.answer = answer
            end
            for command, why in gmatch(answer.data or "", "(%u+) ([^\n]*)") do
                server.failed[command] = gsub(why, "[^ -~]", "?")
            end
        end
    end
    return servers
end

--- Tries a lock on each server.
-- @param client  which is open
-- @param rows    of client:check(), so far
-- @param found   function(place, finding): is told what is wrong with a server
-- @return a list of { place } of servers that are not too many connections to be listed
function _M.try(client, rows, found)
    local few = {}
    for _, server in ipairs(ask(client, rows)) do
        local _, user = client.credentials:of(server.place)
        local function here(what)
            found(server.place, what)
        end
        if server.answer.data then
            local n = server.answer.info         -- -1: its user may not know
            few[#few + 1] = n > 1 and n <= LISTED and { place = server.place } or nil
        else
            refused(server.answer, user, here)
        end
        judge(server.failed, user, here)
    end
    return few
end

-- Those of other clients in a CLIENT LIST. Their names: redlock, or the option `client_name`, and a
-- hash of their servers.
-- @return how many have another list of servers, and from how many hosts
local function others(client, text, list)
    local n, hosts, of = 0, 0, {}
    for line in gmatch(text, "[^\n]+") do
        local name, theirs = match(line, " name=(%S-):(%x%x%x%x%x%x%x%x) ")
        local ours = name == "redlock" or name == client.options.client_name
        if ours and theirs ~= list then
            local host = match(line, " addr=(%S+):%d+ ") or "?"
            n, hosts = n + 1, hosts + (of[host] and 0 or 1)
            of[host] = true
        end
    end
    return n, hosts
end

--- Counts the connections of clients with another list of servers, where CLIENT LIST is allowed.
-- @param client  as for try()
-- @param found   as for try()
-- @param asked   from try()
function _M.count_strangers(client, found, asked)
    local info = ffi.new "rl_node_info"
    load().rl_node_get_info(client.core, 0, info)
    local list = ffi.string(info.list)
    for k, answer in ipairs(each.ask_clients(client, asked)) do
        local n, hosts = others(client, answer.data or "", list)
        if n > 0 then
            found(asked[k].place, { kind = "lists", verdict = "warning", message = format("%d "
                .. "connection%s of %d host%s use%s another list of servers; all clients need the "
                .. "same", n, n == 1 and "" or "s", hosts, hosts == 1 and "" or "s",
                n == 1 and "s" or "") })
        end
    end
end

return _M
