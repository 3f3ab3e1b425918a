--- What the servers report about themselves, what is wrong with it, and what to do: for
-- client:check(), and for events that warn.

local ffi = require "ffi"
local encoding = require "redlock.text.encoding"
local errors = require "redlock.runtime.errors"
local node_codes = require "redlock.runtime.node_codes"
local quorum = require("redlock.runtime.limits").quorum
local reasons = require "redlock.runtime.reasons"
local rounds = require "redlock.runtime.rounds"

local ipairs, setmetatable, tonumber = ipairs, setmetatable, tonumber
local char, format = string.char, string.format
local concat, insert = table.concat, table.insert
local abs, ceil, date, time = math.abs, math.ceil, os.date, os.time
local ffi_string, duration = ffi.string, encoding.duration

local _M = {}

local CERTIFICATE_WARNING = 30 * 86400     -- seconds before its end
local ROLES, GUARDS           -- words for RL_ROLE_* and rl_guard

local function name_states(C)
    ROLES = { [tonumber(C.RL_ROLE_MASTER)] = "master", [tonumber(C.RL_ROLE_REPLICA)] = "replica" }
    GUARDS = {
        [tonumber(C.RL_GUARD_OFF)] = "off",
        [tonumber(C.RL_GUARD_UNKNOWN)] = "unknown",
        [tonumber(C.RL_GUARD_ADMITTED)] = "admitted",
        [tonumber(C.RL_GUARD_QUARANTINED)] = "guarded",
        [tonumber(C.RL_GUARD_DISAGREES)] = "disagrees",
    }
end

-- ---- one node --------------------------------------------------------------------

-- Reads one node's row, without a verdict. since: as for rows().
local function row_of(client, i, info, since)
    local C = rounds.load()
    if not GUARDS then
        name_states(C)
    end
    C.rl_node_get_info(client.core, i - 1, info)
    local row = { node = client.options.nodes[i].label, ready = info.stats.ready ~= 0 }
    row.code = ffi_string(C.rl_code_name(info.stats.code))
    row.lost = info.lost ~= 0 and ffi_string(C.rl_code_name(info.lost)) or nil
    if not row.ready then
        row.message, row.why = reasons.text(client, i, info)
    elseif since and tonumber(info.heard_ms) / 1000 < since then
        row.ready, row.code, row.message = false, "timeout", "connected, but no answer in time"
    end
    if not row.ready and row.code == "ok" then       -- it connects again
        row.code = row.lost or "pending"
    end
    row.reachable = row.ready or node_codes[row.code] ~= nil and node_codes[row.code].up == true
    row.guard = GUARDS[tonumber(info.guard)]
    row.steps = info.steps
    row.step = tonumber(info.step_ms) / 1000
    row.suspect_left = tonumber(info.suspect_left_ms) / 1000
    if row.guard == "guarded" and info.guard_left_ms >= 0 then       -- negative: it is down
        row.guard_left = tonumber(info.guard_left_ms) / 1000
    end
    row.quarantine = tonumber(info.quarantine_ms) / 1000
    row.memory = info.memory ~= 0 and char(info.memory) or nil
    row.observed, row.seeded = tonumber(info.observed_ms) / 1000, tonumber(info.seeded)
    row.marker_code = info.marker_code ~= 0 and ffi_string(C.rl_code_name(info.marker_code))
        or nil
    row.unverified = info.unverified ~= 0
    row.cluster = info.cluster[0] ~= 0 and ffi_string(info.cluster) or nil
    if not row.why and info.objection ~= 0 then
        row.objection, row.why = reasons.text(client, i, info, info.objection)
    end
    row.certificate_ends = info.certificate_ends_s > 0 and tonumber(info.certificate_ends_s) or nil
    local said = info.server
    if said.known ~= 0 then
        row.stale = not row.ready or nil
        row.version, row.run_id = ffi_string(said.version), ffi_string(said.run_id)
        row.role = ROLES[tonumber(said.role)] or "unknown"
        row.uptime = tonumber(said.uptime_s)
        row.persistence = said.aof ~= 0 and "aof" or said.rdb ~= 0 and "rdb" or "none seen"
        row.maxmemory = tonumber(said.maxmemory)
        row.eviction = ffi_string(said.policy)
    end
    if info.clock ~= 0 then
        row.round_trip = tonumber(info.round_trip_ms) / 1000
        row.clock_offset = tonumber(info.offset_ms) / 1000
        row.clock_error = tonumber(info.offset_error_ms) / 1000
    end
    return row
end

-- What old versions cannot do (Valkey began as 7.2).
local LACKS = {
    { before = 6.00, kind = "version", verdict = "warning", message = "it is older than Redis "
        .. "6.0, the oldest tested version; upgrade it" },
    { before = 6.02, kind = "channels", verdict = "warning", user = true, message = "Redis before "
        .. "6.2 has no ACL rules for channels: leave &redlock:{...}:free out of this user's rules "
        .. "(the user can then read and send every message), or upgrade it" },
}

--- Adds to a list of findings what a server's version (from INFO; nil: unknown) cannot do. `user`:
-- whether the client has a user with ACL rules there.
function _M.lacks(list, version, user)
    local major, minor = (version or ""):match "(%d+)%.(%d+)"
    for _, lack in ipairs(LACKS) do
        if major and major + minor / 100 < lack.before and (user or not lack.user) then
            list[#list + 1] = { kind = lack.kind, verdict = lack.verdict,
                message = lack.message }
        end
    end
    return list
end

-- Objections as kinds of findings; the others are "disagrees".
local KINDS = { new = "guarded", memory_lost = "guarded", quarantine_over = "guarded",
    clock_stepped = "clock_step", marker_refused = "marker", no_eval = "marker", no_time = "marker",
    twin = "twin" }

-- Findings about rights that leave a server its vote, but not for all that redlock run does.
local LACKING = { unverified = true, rights = true }

local function is_slow(row, client)
    return (row.round_trip or 0) > client.options.timeout
end

-- A server that answers later than programs wait.
local function slow(row, client)
    local wait = client.options.timeout
    local took = is_slow(row, client) and "" or "more than "
    return { kind = "slow", verdict = "error", message = format("it answers after %s%s; programs "
        .. "wait %s: bring the servers closer, or raise the option `timeout`", took,
        duration(took == "" and row.round_trip or wait), duration(wait)) }
end

-- What must have been seen of a server before it is ok: functions of its row, the client, what a
-- trial has shown (nil: none was made), and the first finding so far. They return true; or a
-- finding, which says what was not seen.
local EVIDENCE = {
    function(row, client)                    -- an answer
        local advice = not (row.ready or row.why) and node_codes.remedy(row.code, row.message)
        return row.ready or row.code == "timeout" and is_slow(row, client) and slow(row, client)
            or { kind = row.code, verdict = "error", message = row.message
            .. (row.stale and " (the values shown are its last ones)" or "")
            .. (advice and ". " .. advice or "") }
    end,
    function(row)                            -- a marker that admits it; read in the handshake
        return not row.objection or { kind = KINDS[row.why] or "disagrees", verdict = "error",
            message = row.objection }
    end,
    function(row, client)                    -- which process it is, in which role
        return not row.ready or row.role == "master" and row.run_id ~= "" and not row.unverified
            or { kind = "unverified", verdict = "warning", message = "it does not show its run_id "
            .. "(INFO): it issues no fencing tokens" .. (client.guarded and ", and a restart that "
            .. "keeps its keys is not noticed" or "") .. "; allow INFO to this user" }
    end,
    function(row)                            -- its clock
        return not row.ready or row.clock_offset ~= nil or { kind = "no_clock", verdict = "warning",
            message = "steps of its clock are not noticed; allow TIME to this user" }
    end,
    function(row, client, seen, told)        -- a lock: granted, kept and released in time
        local code = seen and node_codes[seen.code]
        local same = told and told.verdict == "error" and code and seen.code == row.marker_code
        if not row.ready or not seen or seen.tried or same then
            return true
        end
        local late = code and code.silent or is_slow(row, client)
        local advice = code and node_codes.remedy(seen.code, seen.message)
        return late and slow(row, client) or { kind = code and seen.code or "pending",
            verdict = "error", message = "no lock was tried on it: " .. (seen.message
            or "it was connected too late") .. (advice and ". " .. advice or "") }
    end,
    function(row, client, seen, told)        -- the fencing tokens of before
        local alone = row.floors and not client.guarded        -- it begins with its clock
        local known = row.floors == "all" or alone and row.clock_offset
        if not row.ready or not seen or known or not alone and (told or seen.findings[1]) then
            return true
        elseif alone then
            return { kind = "rights", verdict = "warning", message = "without TIME it issues no "
                .. "fencing tokens, of which redlock run takes one unless it has --plain" }
        end
        return { kind = row.floors and "tokens" or "rights", verdict = "error",
            message = "it does not say which fencing tokens it knows" }
    end,
}

-- What is wrong with a node: a list of { kind, verdict, message }.
local function findings_of(client, row, user, seen)
    local list = {}
    for _, look in ipairs(EVIDENCE) do
        local lacking = look(row, client, seen, list[1])
        list[#list + 1] = lacking ~= true and lacking or nil
    end
    local function warn(kind, ...)
        list[#list + 1] = { kind = kind, verdict = "warning", message = format(...) }
    end
    if row.maxmemory and row.maxmemory > 0 and row.eviction ~= "noeviction" then
        warn("eviction", "maxmemory-policy %s can drop locks; set it to noeviction", row.eviction)
    end
    if row.ready and not client.guarded and row.persistence == "none seen" then
        warn("persistence", "it may forget its locks when it restarts (INFO shows no persistence), "
            .. "and the guard is off; set restart_guard = true, or appendonly yes with appendfsync "
            .. "always")
    end
    local ends = row.certificate_ends
    if ends and ends < time() + CERTIFICATE_WARNING then
        warn("certificate", "a certificate of its connection (its own, its CA's, or cert_file) "
            .. "ends on %s: renew it", date("!%Y-%m-%d", ends))
    end
    local o = client.options
    local bound = o.lease * o.drift_factor + 0.002
    if row.clock_offset and abs(row.clock_offset) - row.clock_error > bound then
        warn("clock", "its clock and ours differ by %+.3f s, which is more than the %.3f s that a "
            .. "lease allows for: to set the server's, stop it first, as a step frees locks early",
            row.clock_offset, bound)
    end
    return _M.lacks(list, row.version, user)
end

-- A warning if every user of the machine may write this file, or read its secret; or nil.
local function exposed(path, secret)
    local modes = rounds.load().rl_file_exposed(path)
    path = path:gsub("[^ -~]", "?")
    if modes >= 2 then
        return format("every user of this machine can write or replace %s, and so decide which "
            .. "servers are trusted: chmod go-w it and its folder", path)
    end
    return modes == 1 and secret and format("every user of this machine can read the secret in %s: "
        .. "chmod 600 it", path) or nil
end

-- @return the client's files, those with secrets first; how many have secrets
local function files(client)
    local o, from = client.options, client.from
    local list, seen = { from.secret and from.path or nil }, {}
    list[#list + 1] = o.key_file or nil
    for _, node in ipairs(o.nodes) do
        local path = node.password_file
        list[#list + 1], seen[path or 1] = not seen[path or 1] and path or nil, true
    end
    local secrets = #list
    list[#list + 1] = not from.secret and from.path or nil
    list[#list + 1] = o.ca_file or nil
    list[#list + 1] = o.cert_file or nil
    return list, secrets
end

--- Warnings about the client's files, as a list of texts.
function _M.exposed(client)
    local paths, secrets = files(client)
    local list = {}
    for i, path in ipairs(paths) do
        list[#list + 1] = exposed(path, i <= secrets)
    end
    return list
end

--- What is wrong with the set of servers and, unless without_files, the client's files: findings.
function _M.findings(client, without_files)
    local n, list = client.size, {}
    local function found(kind, ...)
        list[#list + 1] = { kind = kind, verdict = "warning", message = format(...) }
    end
    if n == 2 then
        found("two", "2 servers tolerate no failure, as a majority is both; use 1, or 3 or more")
    elseif n % 2 == 0 then
        found("even", "%d servers tolerate no more failures than %d; use an odd number", n, n - 1)
    end
    local plain, tls
    for i, node in ipairs(client.options.nodes) do
        tls = tls or node.tls
        plain = plain or not node.tls and not node.path and client.options.nodes[i].label
    end
    if tls and not client.options.tls_verify then
        found("tls_verify", "certificates are not verified (tls_verify = false): anyone on "
            .. "the network path can read and change everything; give ca_file instead")
    end
    if tls and plain then
        found("tls_mix", "some connections use TLS and others (%s) do not: passwords and locks "
            .. "can be read and changed on the way", plain)
    end
    for _, message in ipairs(without_files and {} or _M.exposed(client)) do
        found("exposed", "%s", message)
    end
    return list
end

-- Adds findings, verdict and remedy to a node's row.
local function judged(client, i, row, seen)
    row.floors = seen and seen.floors
    row.findings = findings_of(client, row, client.options.nodes[i].user, seen)
    for _, found in ipairs(seen and seen.findings or {}) do
        row.findings[#row.findings + 1] = found
    end
    row.verdict = "ok"
    local remedies = {}
    for k, found in ipairs(row.findings) do
        remedies[k] = found.message
        if row.verdict ~= "error" then
            row.verdict = found.verdict
        end
    end
    row.remedy = #remedies > 0 and concat(remedies, "; ") or nil
    return row
end

--- The rows of all nodes, from what is known now, with verdict and remedy. A node that has not
-- answered since `since` (of client.now(); or nil) timed out. seen: by place, what check() has
-- tried on it; nil: "ok" is said without a trial.
function _M.rows(client, since, seen)
    rounds.load()
    local info, rows = ffi.new "rl_node_info", {}
    for i = 1, client.size do
        rows[i] = judged(client, i, row_of(client, i, info, since), seen and seen[i])
    end
    return rows
end

-- Why a server has no vote, as a code of errors; "ok": it has one.
local function code_of(row)
    if not row.ready then
        return row.lost or row.code == "timeout" and "timeout" or "pending"
    end
    local kind = row.objection and (KINDS[row.why] or "disagrees")
    return not kind and (row.guard == "unknown" and "pending" or "ok")
        or kind == "marker" and row.marker_code
        or (kind == "guarded" or kind == "clock_step") and "guarded" or "config"
end

--- The rows as errors list them.
function _M.complaints(rows)
    local list = {}
    for i, row in ipairs(rows) do
        local code = code_of(row)
        list[i] = { node = row.node, code = code, why = code ~= "ok" and row.why or nil,
            message = code == "pending" and "not connected yet"
                or not row.ready and row.message or row.objection or code }
    end
    return list
end

-- ---- for people ------------------------------------------------------------------

-- Of the two lines of a server.
local TITLES = { { "node", "verdict", "guard", "floors", "round trip" },
    { "  version", "role", "run_id", "uptime", "clock", "persistence", "eviction" } }

local function cells(row)
    local run_id = row.run_id and row.run_id ~= "" and row.run_id:sub(1, 8) or "-"
    local now = row.ready and row or {}              -- these may have changed if it is not ready
    return { row.node, row.verdict, row.guard, row.floors or "-", duration(now.round_trip) },
        { "  " .. (row.version or "-"), row.role or "-", run_id,
            now.uptime == 0 and "< 1 s" or duration(now.uptime),
            now.clock_offset and format("%+.3f s", now.clock_offset) or "-",
            row.persistence or "-", row.eviction or "-" }
end

local Report = {}

--- A table with two lines for each node, then what to do.
function Report:__tostring()
    local first, second, out = { TITLES[1] }, { TITLES[2] }, {}
    for i, row in ipairs(self) do
        first[i + 1], second[i + 1] = cells(row)
    end
    first, second = encoding.columns(first), encoding.columns(second)
    for i, line in ipairs(first) do
        out[2 * i - 1], out[2 * i] = line, second[i]
    end
    for _, row in ipairs(self) do
        if row.remedy then
            out[#out + 1] = row.node .. ": " .. row.remedy
        end
    end
    for _, found in ipairs(self.findings) do
        out[#out + 1] = "all: " .. found.message
    end
    out[#out + 1] = self.source and "settings from " .. self.source or nil
    out[#out + 1] = "verdict: " .. self.verdict .. (self.summary and ": " .. self.summary or "")
    return concat(out, "\n")
end

-- Whether all servers say that they have no memory yet.
local function are_new(rows)
    for _, row in ipairs(rows) do
        if row.memory ~= "n" then
            return false
        end
    end
    return true
end

-- Whether this user has all rights on a server that votes that redlock run needs.
local function suffices(row)
    for _, found in ipairs(row.findings) do
        if LACKING[found.kind] then
            return false
        end
    end
    return row.verdict ~= "error"
end

-- Adds the verdict on the whole, and its reason.
local function sum_up(rows, wanted)
    local voting, sufficing, warned = 0, 0, #rows.findings > 0
    for _, row in ipairs(rows) do
        voting = voting + (row.verdict == "error" and 0 or 1)
        sufficing = sufficing + (suffices(row) and 1 or 0)
        warned = warned or row.verdict ~= "ok"
    end
    local why = voting < wanted and ": no locks"
        or sufficing < wanted and ", but this user lacks rights that redlock run needs"
        or voting < #rows and ": restart no other server"
        or warned and ": mend what is listed above"
    rows.voting, rows.summary = voting, why and format("%d of %d vote%s", voting, #rows, why) or nil
    rows.verdict = sufficing < wanted and "error" or why and "warning" or "ok"
end

--- See client:check. try(client, rows), or nil, returns what was seen of each node: { tried =
-- whether it answered a trial lock in time, or nil with code and message; floors; findings }.
function _M.check(client, try)
    local began = client.now()
    local ok, err = rounds.check(client)
    if not ok then
        return nil, err
    end
    local seen = try and try(client, _M.rows(client))
    if client.closed then    -- during the questions
        return nil, errors.new("closed", "check")
    end
    local rows = _M.rows(client, began, seen)
    rows.findings = _M.findings(client)
    if are_new(rows) then
        insert(rows.findings, { kind = "new", verdict = "warning", message = format("if no "
            .. "program has used these servers in the last %d s: redlock init",
            ceil(client.options.max_lease)) })
    end
    rows.quorum, rows.source = quorum(#rows), client.from.source
    sum_up(rows, rows.quorum + client.options.margin)
    return setmetatable(rows, Report)
end

return _M
