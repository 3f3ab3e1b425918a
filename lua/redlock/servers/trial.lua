--- For client:check(): takes, keeps and releases a lock of its own on each server, and counts
-- clients with another list of servers.

local question = require "redlock.runtime.question"
local ffi = require "ffi"
local floors = require "redlock.servers.floors"
local load = require("redlock.runtime.ffi").load
local node_codes = require "redlock.runtime.node_codes"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"

local band, ipairs, pairs = require("bit").band, ipairs, pairs
local find, format, gmatch, gsub, match = string.find, string.format, string.gmatch, string.gsub,
    string.match
local concat, insert, remove = table.concat, table.insert, table.remove

local _M = {}

local TRIAL = script_text.own "check.trial"
local LISTED = 2000           -- a server with more connections is not asked for a list
local SCRIPT = "EVAL or EVALSHA"

-- What a failing command means. Other commands are of fenced locks.
local MISSED = {
    [SCRIPT] = "no lock can be taken", SET = "no lock can be taken",
    GET = "locks cannot be looked at or extended",
    GETRANGE = "released locks stay closed until their lease ends",
    KEPT = "no lock is kept",
    EVAL = "no lock can be taken when a server has forgotten its scripts; new ones stay guarded",
    PTTL = "leases are not extended", PEXPIRE = "leases are not extended",
    DEL = "released locks stay closed until their lease ends",
    PUBLISH = "waiters are not woken by a release, and ask from time to time",
}
local ERRORS = { [SCRIPT] = true, SET = true, GET = true, GETRANGE = true, KEPT = true }
local FENCED = "there are no fenced locks, of which redlock run takes one unless it "
    .. "has --plain"

-- What to do about a command that failed.
local function remedy(command, why)
    return find(why, "^OOM") and node_codes.oom.remedy or node_codes.remedy("readonly", why)
        or find(why, "nknown") and "give it its name back in redis.conf"
        or find(why, "key") and "allow this user the keys of locks (examples/access/README.md)"
        or find(why, "channel") and "allow this user the channels redlock:{...}:free"
        or "allow this user " .. (match(why, "'(%l+)' command") or command):upper()
end

-- Adds one server's failures (command -> why) to its findings.
local function add_failures(failed, user, findings)
    local fenced, reason = {}, nil
    if failed.SET or failed.GET or failed.EVAL or failed[SCRIPT] then
        failed.KEPT = nil                -- of course
    end
    local function tell(kind, what, why, missed)
        insert(findings, { kind = kind, verdict = ERRORS[what] and "error" or "warning",
            message = format("a lock was tried as user %s, and %s failed (%s): %s; %s", user, what,
                why, missed, remedy(what, why)) })
    end
    for command, why in pairs(failed) do
        if MISSED[command] then
            tell(command == "EVAL" and "rights" or "trial", command, why, MISSED[command])
        else
            fenced[#fenced + 1], reason = command, why
        end
    end
    if #fenced > 0 and not failed.SET then
        tell("rights", concat(fenced, ", "), reason, FENCED)
    end
end

-- Takes one.failed and one.answered (of the two steps) from an answer to a question of try().
local function read(one, said)
    local code, failed = node_codes[said.code], one.failed
    for command, why in gmatch(said.data or "", "(%u+) ([^\n]*)") do
        failed[command] = gsub(why, "[^ -~]", "?")
    end
    if said.data then                -- EVALSHA worked where EVAL had failed
        failed.EVAL, failed[SCRIPT] = failed[SCRIPT], nil
        one.few = said.info > 1 and said.info <= LISTED
    elseif code and not code.passes then
        failed[SCRIPT] = said.message
    end
    one.answered = one.answered + ((said.data or code and not code.passes) and 1 or 0)
    one.code, one.message = one.code or said.code, one.message or said.message
end

-- How often a lock is tried on a server that answers too late: once may be a pause.
local TRIES = 2

-- Takes and releases a lock on each server that is ready, by `rows` of client:check(): adds to
-- seen[place] what came of it.
local function try(client, rows, seen)
    local asked, name = {}, format("%sredlock:check:%08x", client.options.prefix,
        rounds.random(client) * 2 ^ 32)
    for place, row in ipairs(rows) do
        asked[#asked + 1] = row.ready and { body = TRIAL, place = place, keys = { name },
            args = { "", format("redlock:{%s}:fence", name), floors.KEY,
                format("redlock:{%s}:free", name),
                client.guarded and "redlock:{server}:marker" or "" } } or nil
    end
    for n = 1, TRIES do
        if n > 1 and asked[1] then
            rounds.sleep(client, client.options.timeout)     -- a silent server is not asked
        end
        for _, one in ipairs(asked) do
            one.failed, one.answered, one.code, one.message = {}, 0, nil, nil
        end
        for _, step in ipairs { "take", "release" } do    -- by EVAL, then by EVALSHA
            for _, one in ipairs(asked) do
                one.args[1] = step
            end
            for k, said in ipairs(question.ask_each(client, asked)) do
                read(asked[k], said)
            end
        end
        for k = #asked, 1, -1 do
            local one = asked[k]
            local its = seen[one.place]
            its.code, its.message, its.few = one.code, one.message, one.few
            if one.answered == 2 then
                its.tried, its.failed = true, one.failed
                remove(asked, k)
            end
        end
    end
    for place, its in ipairs(seen) do
        local _, user = client.credentials:of(place)
        add_failures(its.failed or {}, user or "default", its.findings)
    end
end

-- Whether scripts could change what those of all users share, by changing nothing. Versions do not
-- tell: distributions mend old ones.
local PROBE = [[
local function may(change) return pcall(change) and 1 or 0 end
return {1, may(function() redis.call = redis.call end) + 2 * may(function()
    local strings = _G.getmetatable('')
    strings.__index = strings.__index
end)}]]
local UPGRADE = ": upgrade it to %s, or give each tenant servers of its own"
local SHARED = { "any user who may run scripts can change redis.call for all users, and so take "
    .. "their locks" .. UPGRADE:format "Redis 6.2.7, 7.0.0 or later (CVE-2022-24735)",
    "any user who may run scripts can have scripts of other users run its code"
    .. UPGRADE:format("Redis 6.2.20, 7.2.11, 7.4.6, 8.0.4 or 8.2.2, or Valkey 7.2.11, 8.0.6 or "
    .. "8.1.4 (CVE-2025-46818)") }

-- Names servers whose scripts one user can change for all, where the client has a user.
local function look_at_scripts(client, rows, seen)
    local asked = {}
    for place, row in ipairs(rows) do
        local _, user = client.credentials:of(place)
        asked[#asked + 1] = row.ready and user and { body = PROBE, place = place, keys = {} } or nil
    end
    for k, said in ipairs(question.ask_each(client, asked)) do
        for i, message in ipairs(SHARED) do
            if said.vote == 1 and band(said.info, i) > 0 then
                insert(seen[asked[k].place].findings, { kind = "shared", verdict = "warning",
                    message = message })
            end
        end
    end
end

-- Counts the connections of clients with another list of servers, where CLIENT LIST is allowed:
-- their connections are named redlock:LIST, or redlock!LIST.
local function count_strangers(client, seen)
    local info, asked = ffi.new "rl_node_info", {}
    load().rl_node_get_info(client.core, 0, info)
    local list = ffi.string(info.list)
    local function is_strange(line)
        local theirs = match(line, " name=redlock[:!](%x%x%x%x%x%x%x%x) ")
        return theirs and theirs ~= list
    end
    for place, its in ipairs(seen) do
        asked[#asked + 1] = its.few and { clients = true, place = place } or nil
    end
    for k, said in ipairs(question.ask_each(client, asked)) do
        local n, text = question.count_connections(said.data, is_strange)
        if n > 0 then
            insert(seen[asked[k].place].findings, { kind = "lists", verdict = "warning",
                message = text .. " another list of servers; all clients need the same" })
        end
    end
end

--- What servers show when they are used, by `rows` of client:check(): see health.check().
function _M.run(client, rows)
    local seen = {}
    for place in ipairs(rows) do
        seen[place] = { findings = {} }
    end
    try(client, rows, seen)
    floors.check(client, rows, seen)
    look_at_scripts(client, rows, seen)
    count_strangers(client, seen)
    return seen
end

return _M
