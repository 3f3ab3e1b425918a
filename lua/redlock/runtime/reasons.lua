--- Why a server has no vote, in words: a sentence for each reason of the core (rl_why in
-- c/redlock.h), with its remedy. Errors, reports, events, pages and the command say these words.

local ffi = require "ffi"
local load = require("redlock.runtime.ffi").load
local node_codes = require "redlock.runtime.node_codes"

local find, format, gsub, match, sub = string.find, string.format, string.gsub, string.match,
    string.sub
local ffi_string = ffi.string

local _M = {}

--- A cluster by its name; or by its servers, at least the first ones.
-- @param name     nil, or a hash of all
-- @param servers  a list as text, or ""
function _M.cluster(name, servers)
    if name and (#name ~= 16 or find(name, "%X")) then
        return "cluster " .. name
    elseif servers == "" then
        return "another list of servers" .. (name and name ~= "" and " (" .. name .. ")" or "")
    elseif #servers > 160 then
        servers = match(sub(servers, 1, 160), "^(.*) ") .. " ..."
    end
    return "{" .. gsub(servers, "[^ -~]", "?") .. "}"
end

-- Until when a server has no vote. info: an rl_node_info.
local function votes(info)
    local left_ms = math.max(tonumber(info.guard_left_ms), tonumber(info.suspect_left_ms))
    if left_ms <= 0 then
        return info.stats.ready == 0 and "; no votes until it is back" or ""
    end
    return format("; it votes in %d s of %d, counted while a client is connected: redlock check "
        .. "--wait", math.ceil(left_ms / 1000), math.ceil(tonumber(info.quarantine_ms) / 1000))
end

local PASSING = { new = true, memory_lost = true, clock_stepped = true }    -- they end by time

-- The server whose marker names others: its label, their name or hash, their servers or "".
local function foreigner(client, info, place)
    local theirs = ffi.new "rl_node_info"
    local foreign = info.foreign >= 0 and info.foreign or place - 1    -- -1: replaced since
    load().rl_node_get_info(client.core, foreign, theirs)
    return client.options.nodes[foreign + 1].label, ffi_string(theirs.cluster),
        ffi_string(theirs.servers)
end

-- What to do about a marker that cannot be read or set.
local REFUSED = {
    noperm = "; allow this user the keys redlock:{server}:marker and redlock:{server}:floor, and "
        .. "GET, SET, HMGET, HSET, TIME, EVAL",
    unsupported = ": GET is renamed in redis.conf; give it its name back",
    script = "; redlock check names the command that failed",
}

-- The sentences, or functions of the client, the server's info and place.
local SENTENCES = {
    new = "it has no memory of locks yet",
    memory_lost = "it lost its memory (restart, failover or FLUSHALL) and may have forgotten locks",
    clock_stepped = function(_, info)
        local by = format(" by %+.3f s (let NTP slew it)", tonumber(info.step_ms) / 1000)
        return "its clock was stepped" .. (info.steps > 0 and by or "")
    end,
    quarantine_over = "its quarantine has ended; it may vote when a majority of the servers is "
        .. "connected and has the same max_lease",
    marker_refused = function(_, info)
        local code = ffi_string(load().rl_code_name(info.marker_code))
        local advice = node_codes.remedy(code, "")
        return format("its marker cannot be read or set (%s)%s", code, REFUSED[code]
            or ": " .. node_codes[code].meaning .. (advice and ". " .. advice or ""))
    end,
    no_eval = "EVAL is renamed in redis.conf or forbidden, so it cannot vote; allow this user EVAL",
    no_time = "TIME is renamed in redis.conf or forbidden, so it cannot vote; allow this user TIME",
    other_version = function(_, info)
        return format(info.marker_version > load().RL_MARKER_VERSION
            and "a later version of redlock uses it (marker v%d): upgrade this program; if the "
            .. "marker is wrong"
            or "an older version of redlock used it (marker v%d): stop its programs, wait for "
            .. "their longest lease; then", info.marker_version)
            .. ": DEL redlock:{server}:marker on that server"
    end,
    other_database = function(client, info, place)
        return format("its marker is for database %d, and this client uses %d: somebody ran "
            .. "SWAPDB, or copied the data. Stop all clients, then run redlock init --force",
            info.marker_db, client.options.nodes[place].db)
    end,
    other_cluster = function(client, info, place)
        local label, theirs, servers = foreigner(client, info, place)
        return format("%s belongs to %s, and this client to %s; if the servers were changed, give "
            .. "this program the new list; if these are the same servers under other addresses, "
            .. "set the same `cluster` everywhere", label, _M.cluster(theirs, servers),
            _M.cluster(client.options.cluster or nil, ffi_string(info.own_servers)))
    end,
    changing = function(client, info, place)
        local label, theirs, servers = foreigner(client, info, place)
        return format("%s is closed by a change to %s: finish it (run redlock change again; "
            .. "--nodes: the servers of before), and give every program the new list", label,
            _M.cluster(match(theirs, "%x*$"), servers))
    end,
    other_max_lease = function(client, info)
        return format("another client set max_lease to %g s there, and this client has %g s; all "
            .. "need the same (to change it: redlock init --force)",
            tonumber(info.marker_max_lease_ms) / 1000, client.options.max_lease)
    end,
    guard_off = "other clients use it with the restart guard, and this one without: after a "
        .. "restart a lock could have two holders. Turn the guard on in all clients",
    replica = function(_, info)
        local host = ffi_string(info.server.master_host)
        return format("a replica%s; only masters can vote: name its master instead", host ~= ""
            and format(" of %s:%d", host, info.server.master_port) or "")
    end,
    sentinel = "a Sentinel: name the masters that it watches",
    balancer = "a second connection met another server: each address must be one server, not a "
        .. "balancer before several",
    cluster_mode = "it runs in cluster mode, in which keys move between servers; use independent "
        .. "servers (cluster-enabled no)",
    twin = function(client, info)
        return "the same server under two addresses" .. (info.same >= 0 and ": it is "
            .. client.options.nodes[info.same + 1].label .. " as well" or "")
            .. "; name each server once"
    end,
    life_unknown = "it does not show its master_replid, so after a restart it might issue a token "
        .. "twice: allow INFO to this user",
    tokens_forgotten = "it does not know which tokens it has issued",
    bad_reply = "a script's reply has no vote, or a vote or counter that cannot be",
}

--- Why a server gave no vote.
-- @param client  whose server it is
-- @param place   of the server, from 1
-- @param info    its rl_node_info
-- @param why     an rl_why; nil: the one in info
-- @return a sentence; and the reason's short name, or nil: it is what the server or the system says
function _M.text(client, place, info, why)
    why = why or info.why
    if why == 0 then
        local text = ffi_string(info.text)
        return text ~= "" and text or "no answer"
    end
    local name = ffi_string(load().rl_why_name(why))
    local sentence = SENTENCES[name]
    sentence = type(sentence) == "function" and sentence(client, info, place) or sentence
    return PASSING[name] and sentence .. votes(info) or sentence, name
end

return _M
