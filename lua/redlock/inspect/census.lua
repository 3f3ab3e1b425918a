--- Which names are held, as a majority of the servers says.
--
-- The room inspect/ answers who holds what. It asks servers, trusts only what a majority says, and
-- takes no lock.
--
-- Each server lists its names by SCAN, from the beginning to the end of its table, over one
-- connection: that gives all keys that existed all the time. A held name is on a majority, so any
-- N - q + 1 servers that have finished include it. A server continues after a missed answer; after
-- a new connection it begins again, as the order may differ. Once one more server has finished, one
-- that lies cannot hide a name; it can never invent a holder, which needs q servers.

local answers = require "redlock.runtime.answers"
local question = require "redlock.runtime.question"
local glob = require "redlock.text.glob"
local holders = require "redlock.inspect.holders"
local limits = require "redlock.runtime.limits"
local rounds = require "redlock.runtime.rounds"
local script_text = require "redlock.runtime.script_text"
local validate = require "redlock.runtime.validate"

local ipairs, pairs, tonumber = ipairs, pairs, tonumber
local format, match, sub = string.format, string.match, string.sub
local max, min, sort = math.max, math.min, table.sort

local _M = {}

local PAGE = script_text.own("now", "inspect.describe", "inspect.page")
local LOOK = script_text.own("now", "inspect.describe", "inspect.look")

local LOOKED = 1000           -- keys that a server looks at in one call
local PAUSE = 0.1             -- seconds after a missed answer
local BATCH = 64              -- names in one question
local MISSES, AGAIN = 3, 5    -- answers that a server may miss in a row, connections it may lose
local ROWS = 500000           -- names that a server may have
local DIGITS = 8              -- for each reader or permit
local KINDS = { l = "lock", f = "fenced lock", r = "readers", p = "permits", c = "latch",
    x = "foreign" }
local SUFFIX = { p = "}:slots", c = "}:latch" }        -- of keys that are not the lock's own

local OPTIONS = { foreign = true, limit = true, rate = true, within = true, pause = true }
local RATE, LIMIT, WITHIN = 100000, 100000, 600
local OTHERS = 7              -- keys of others cost a server as much as one lock
local MAX_PATTERN = 1024

--- Checks the arguments of client:locks, for locks(): see redlock.LocksOptions.
function _M.options(pattern, opts)
    opts = validate.options("options", opts, OPTIONS)
    return {
        pattern = pattern == nil and "*" or validate.name("pattern", pattern, MAX_PATTERN),
        foreign = validate.flag("foreign", opts.foreign),
        limit = opts.limit == nil and LIMIT or validate.integer("limit", opts.limit, 1, 1e9),
        rate = opts.rate == nil and RATE or validate.integer("rate", opts.rate, 100, 1e9),
        pause = opts.pause and validate.is_function("pause", opts.pause) or rounds.sleep,
        within = opts.within == nil and WITHIN or validate.seconds("within", opts.within, 0),
    }
end

-- ---- what a server says ------------------------------------------------------------

-- Reads rows of describe.lua into a table. Keys: the name after "p" for permits, "c" for latches,
-- "l" for others.
-- @return the next cursor; how many names were too long; how many rows it read
local function read(data, into, now)
    local cursor, long, at = match(data, "^(%d+) (%d+) ()")
    local n = 0
    while at and at <= #data do
        local kind, left, waiting, queue, token, name_len, who_len, from = match(data,
            "^(%l) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+):()", at)
        if not KINDS[kind] then
            return nil           -- not our script's answer
        end
        name_len, who_len = tonumber(name_len), tonumber(who_len)
        at = from + name_len + who_len
        if at > #data + 1 then
            return nil
        end
        local who = sub(data, from + name_len, at - 1)
        into[(SUFFIX[kind] and kind or "l") .. sub(data, from, from + name_len - 1)] = {
            kind = kind, who = who, waiting = tonumber(waiting), queue = tonumber(queue),
            token = tonumber(token), ends = now + tonumber(left) / 1000 }
        n = n + 1
    end
    return cursor, tonumber(long), n
end

-- ---- from server to server -----------------------------------------------------------

local function reset(server)
    server.cursor, server.rows, server.n, server.long = "0", {}, 0, 0
    server.pages, server.misses, server.connects = 0, 0, nil
end

local function fail(server, code, message)
    server.failed = { node = server.label, code = code, message = message }
end

-- Handles a server's answer about a page.
local function read_page(client, server, said, before, now)
    if said.code then
        server.misses = server.misses + 1
        local broke = said.code == "refused" and server.pages > 0
        if server.misses >= MISSES or said.code ~= "timeout" and not broke then
            fail(server, said.code, said.message)
        end
        return
    end
    local after = answers.node_info(client, server.place).stats.connects
    if before ~= after or server.connects and server.connects ~= after then
        server.again = (server.again or 0) + 1
        reset(server)
        if server.again > AGAIN then
            fail(server, "refused", "its connection breaks again and again")
        end
        return
    end
    local cursor, long, n = read(said.data, server.rows, now)
    if said.vote ~= 1 or not cursor then
        fail(server, "protocol", "no answer to what was asked")
        return
    end
    server.connects, server.misses, server.cursor = after, 0, cursor
    server.long, server.n, server.pages = server.long + long, server.n + n, server.pages + 1
    server.looked = max(said.info, 1)
    server.done = cursor == "0"
    if server.n > ROWS then
        fail(server, "overload", "it has too many names")
    end
end

-- @return the servers to ask further; how many are done; the most pages that one of these had
local function left_of(servers)
    local list, done, pages = {}, 0, 0
    for _, server in ipairs(servers) do
        if server.done then
            done, pages = done + 1, max(pages, server.pages)
        elseif not server.failed then
            list[#list + 1] = server
        end
    end
    return list, done, pages
end

-- Once enough servers are done, gives up those with far more pages.
local function without_stragglers(list, done, need, pages)
    if done < need then
        return list
    end
    local rest = {}
    for _, server in ipairs(list) do
        if server.pages <= 4 * pages + 100 then
            rest[#rest + 1] = server
        else
            fail(server, "timeout", "it does not come to an end")
        end
    end
    return rest
end

-- Asks each server in `list` for its next page.
-- @return how many keys the busiest server looked at, and how many of one server's were locks
local function turn(client, list, args)
    local asked, before = {}, {}
    for k, server in ipairs(list) do
        if server.misses > 0 then        -- its connection may be opened again
            rounds.sleep(client, PAUSE)
        end
        before[k] = answers.node_info(client, server.place).stats.connects
        asked[k] = { body = PAGE, place = server.place, keys = {}, args = { args[1], args[2],
            server.cursor, args[3], format("%d", LOOKED) } }
    end
    local said, now, looked, locks = question.ask_each(client, asked), client.now(), 0, 0
    for k, server in ipairs(list) do
        read_page(client, server, said[k], before[k], now)
        looked, locks = max(looked, said[k].info or 0), max(locks, server.n)
    end
    return looked, locks
end

-- Reads the names of all servers. opts: from options().
-- @return a list of servers: each has rows if done, else failed = { node, code, message }; how many
--   are done; how many are enough (N - q + 1)
local function scan(client, opts)
    local servers = {}
    for place = 1, client.size do
        servers[place] = { place = place, label = client.options.nodes[place].label }
        reset(servers[place])
    end
    local prefix = client.options.prefix
    local args = { prefix, opts.foreign and "1" or "0",
        "*" .. glob.escaped(prefix .. glob.literal(opts.pattern)) .. "*" }
    local need, began, looked = client.size - client.quorum + 1, client.now(), 0
    local list, done = servers, 0
    while #list > 0 and not client.closed do
        local keys, locks = turn(client, list, args)
        looked = looked + keys
        local pages
        list, done, pages = left_of(servers)
        list = without_stragglers(list, done, need, pages)
        local spent = client.now() - began
        local due = max(locks / opts.rate, looked / max(opts.rate, min(opts.rate * OTHERS, RATE)))
        if #list > 0 and spent > opts.within then
            for _, server in ipairs(list) do
                fail(server, "timeout", "it did not come to its end in time")
            end
            break
        elseif #list > 0 and due > spent then
            opts.pause(client, due - spent)
        end
    end
    return servers, done, need
end

-- ---- what a majority says ------------------------------------------------------------

-- How many readers or permits are on a majority: rows name up to 64; if q servers count more, the
-- q-th largest count.
local function count_of(rows, q)
    local seen, n, counts = {}, 0, {}
    for i, row in ipairs(rows) do
        for at = 1, #row.who, DIGITS do
            local digits = sub(row.who, at, at + DIGITS - 1)
            seen[digits] = (seen[digits] or 0) + 1
            n = n + (seen[digits] == q and 1 or 0)
        end
        counts[i] = row.token
    end
    sort(counts, function(a, b) return a > b end)
    return (counts[q] or 0) > 64 and counts[q] or n
end

-- Merges the rows of the servers that answered; false: a server without the name.
-- @return a row for users; false: nobody holds it; nil: uncertain
local function merge(client, name, list, now)
    local rows, said, numbers = {}, {}, { waiting = {}, queue = {}, token = {} }
    for i, row in ipairs(list) do
        said[i] = row and { who = row.kind:find "[rpc]" and row.kind or row.who,
            left = max(row.ends - now, 0) } or {}
        if row then
            rows[#rows + 1] = row
            for field, values in pairs(numbers) do
                values[#values + 1] = row[field]
            end
        end
    end
    local held, who, left = holders.view(said, client.size)
    if not held then
        return held
    end
    local result = { name = name, remaining = left,
        waiting = limits.median(numbers.waiting), queue = limits.median(numbers.queue) }
    if #who == 1 then
        result.kind = KINDS[who]
        result.count = who == "c" and limits.median(numbers.token) or count_of(rows, client.quorum)
        return result.count > 0 and result
    end
    local function agreed(field)
        return limits.majority(rows, client.size, function(row) return row[field] end)
    end
    local token = agreed "token"
    result.kind = KINDS[token and token > 0 and "f" or agreed "kind" or "l"]
    result.token = token and token > 0 and token or nil
    result.hold = sub(who, 1, DIGITS)
    local its = answers.card(client, who, 20)
    result.holder = its and { label = its.label, since = its.since, remaining = left } or nil
    return result
end

-- The key of an entry of read().
local function key_of(client, entry)
    local key = client.options.prefix .. sub(entry, 2)
    local suffix = SUFFIX[sub(entry, 1, 1)]
    return suffix and "redlock:{" .. key .. suffix or key
end

-- Asks all servers for at most BATCH entries of read(). foreign: other libraries' values count.
-- @return entry -> as merge()
local function ask_for_entries(client, entries, foreign)
    local keys, asked = {}, {}
    for i, entry in ipairs(entries) do
        keys[i] = key_of(client, entry)
    end
    for place = 1, client.size do
        asked[place] = { body = LOOK, place = place, keys = keys,
            args = { client.options.prefix, foreign and "1" or "0" } }
    end
    local all, now = {}, client.now()
    for _, said in ipairs(question.ask_each(client, asked)) do
        local rows = {}
        if said.vote == 1 and read(said.data, rows, now) then
            all[#all + 1] = rows
        end
    end
    local found = {}
    for _, entry in ipairs(entries) do
        local list = {}
        for i, rows in ipairs(all) do
            list[i] = rows[entry] or false
        end
        found[entry] = merge(client, sub(entry, 2), list, now)
    end
    return found
end

-- The entries that `least` servers have, sorted by name.
local function seen_by(servers, least, pattern)
    local count, list = {}, {}
    for _, server in ipairs(servers) do
        for entry in pairs(server.rows) do
            local n = (count[entry] or 0) + 1
            count[entry] = n
            if n == least and glob.matches(pattern, sub(entry, 2)) then
                list[#list + 1] = entry
            end
        end
    end
    sort(list, function(a, b)
        local x, y = sub(a, 2), sub(b, 2)
        return x < y or x == y and a < b
    end)
    return list
end

-- The names that a majority has. Enough of `servers` are done.
-- @return a list of rows, with long, more
local function result(client, servers, opts)
    local whole, list, unsure, longs = {}, { long = 0 }, {}, {}
    for _, server in ipairs(servers) do
        if server.done then
            whole[#whole + 1] = server
            longs[#longs + 1] = server.long
        end
    end
    list.long = limits.median(longs)
    -- One of the servers that have a name may hide it.
    local least = max(#whole - (client.size - client.quorum) - 1, 1)
    local found, entries, now = {}, seen_by(whole, least, opts.pattern), client.now()
    for _, entry in ipairs(entries) do
        local said = {}
        for i, server in ipairs(whole) do
            said[i] = server.rows[entry] or false
        end
        found[entry] = merge(client, sub(entry, 2), said, now) or nil
        if not found[entry] then
            unsure[#unsure + 1] = entry      -- it changed hands during the scan
        end
    end
    for from = 1, #unsure, BATCH do
        local some = {}
        for i = from, min(from + BATCH - 1, #unsure) do
            some[#some + 1] = unsure[i]
        end
        if not client.closed then
            for entry, row in pairs(ask_for_entries(client, some, opts.foreign)) do
                found[entry] = row
            end
        end
    end
    for _, entry in ipairs(entries) do
        if found[entry] and #list >= opts.limit then
            list.more = true
            break
        end
        list[#list + 1] = found[entry] or nil
    end
    return list
end

-- Why too few servers completed the scan.
local function failure(client, servers)
    local said = {}
    for place, server in ipairs(servers) do
        said[place] = server.failed or { vote = 1 }
    end
    return question.lack(client, "the names of locks", said)
end

--- See client:locks. opts: from options().
function _M.locks(client, opts)
    local servers, done, need = scan(client, opts)
    local list = done >= need and not client.closed and result(client, servers, opts)
    if not list or client.closed then
        return nil, failure(client, servers)
    end
    return list
end

return _M
