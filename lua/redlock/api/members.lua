--- client:members: the list of servers, and what is asked for before it changes.

local errors = require "redlock.core.errors"
local fenced_lock = require "redlock.api.fenced_lock"
local health = require "redlock.policy.health"
local lock = require "redlock.api.lock"
local members = require "redlock.policy.members"
local places = require "redlock.core.places"
local record = require "redlock.core.record"
local rounds = require "redlock.core.rounds"
local uri = require "redlock.api.uri"
local validate = require "redlock.core.validate"
local views = require "redlock.policy.views"

local ipairs, pairs, pcall, type, tostring = ipairs, pairs, pcall, type, tostring
local format, concat = string.format, table.concat
local bad = validate.bad

local _M = {}

local OPTIONS = { add = true, remove = true, online = true, finish = true, dry_run = true,
    progress = true }

local function config(...)
    return nil, errors.new("config", "members: " .. format(...))
end

-- ---- arguments ---------------------------------------------------------------------

-- The label of a server to be added.
local function added(text)
    if type(text) ~= "string" then
        bad("add", "a URI is needed, not " .. type(text))
    end
    local node = uri.node(text, "add")
    if node.password or node.user or node.password_file then
        bad("add", "passwords are options of each client (user, password), as the list has none")
    end
    return node.label
end

-- The label of a server as people call it: as client:check() names it, or without its scheme.
local function named(text)
    if type(text) ~= "string" then
        bad("remove", "the name of a server is needed, not " .. type(text))
    end
    local ok, node = pcall(uri.node, text, "remove")
    if not ok then
        ok, node = pcall(uri.node, "redis://" .. text, "remove")
    end
    return ok and node.label or text
end

--- What is asked for. Raises a text that says what is wrong with it.
-- @param opts  of client:members, or nil
-- @return { add, remove, online, finish, done = function(record): whether that is so }; nil:
--   nothing
function _M.wish(opts)
    local wish = { add = opts.add and added(opts.add), remove = opts.remove and named(opts.remove),
        online = opts.online, finish = opts.finish }
    if wish.add and wish.add == wish.remove then
        bad("add", "a server cannot take its own place; one that has forgotten votes again after "
            .. "its quarantine")
    elseif wish.online == false then
        bad("online", "quarantines that have become strict stay so")
    elseif (wish.online or wish.finish) and (wish.add or wish.remove)
        or wish.online and wish.finish then
        bad("options", "one thing at a time: add, remove, or both; online; or finish")
    end
    function wish.done(r)
        return not r.old and (not wish.add or record.find(r.list, wish.add) ~= nil)
            and (not wish.remove or not record.find(r.list, wish.remove))
            and (not wish.online or r.online)
    end
    return (wish.add or wish.remove or wish.online or wish.finish) and wish or nil
end

-- ---- the server that is to be added ------------------------------------------------

-- Looks at it with a client of its own, before all clients learn of it. true, or nil and an error.
local function visit(client, label, now, new_client)
    local own = {}
    for name, value in pairs(client.options) do
        own[name] = value
    end
    own.nodes, own.restart_guard, own.on_event, own.signals = { label }, "ignore", false, false
    local one = new_client(own)
    local rows, err = one:check()
    local seen = rows and rows[1].ready and views.look(one)
    local s = seen and seen[label]
    local function conclude(...)
        one:close()
        return ...
    end
    if not s then
        return conclude(config("%s cannot be added: %s", label, rows and (rows[1].remedy
            or rows[1].code) or tostring(err)))
    end
    for _, row in ipairs(health.rows(client)) do
        if row.run_id and row.run_id == rows[1].run_id and row.node ~= label then
            return conclude(config("%s is the server %s", label, row.node))
        end
    end
    local m = s.marker
    if m and m.cluster ~= now.cluster then
        return conclude(config("%s belongs to another list of servers%s; if that is no more: "
            .. "DEL redlock:{server}:marker there", label, s.record and
            format(" {%s}", record.labels(s.record.list)) or ""))
    elseif m and not views.clear(one, s) then
        return conclude(config("%s has another marker now; try again", label))
    end
    return conclude(true)
end

-- ---- asking ------------------------------------------------------------------------

-- The servers by the names of the list: a client that calls them otherwise has no place for them.
local function other_names(client, now)
    local ours, unknown = {}, nil
    for i = 1, places.count(client) do
        local label = places.label(client, i)
        ours[#ours + 1] = label
        ours[label or 0] = true
    end
    for _, member in ipairs(now.list) do
        unknown = unknown or not ours[member.label] and member.label
    end
    return unknown and format("the list has %s, and this client none of that name, but {%s}; "
        .. "give it the servers as the list has them", unknown, concat(ours, " "))
end

-- The list as it is: the record of the newest view, and what each server says. Servers of whom the
-- client learns by the first look are there for the second one.
local function look(client)
    local now, seen
    for _ = 1, 2 do
        local ok, err = rounds.check(client)
        if ok then
            seen, err = views.look(client)
        end
        if not seen then
            return nil, err
        end
        now = views.newest(seen)
        if not now then
            return config "no server says which list it is in; a new cluster? redlock init"
        elseif views.count(now.list, seen, function() return true end) == #now.list then
            break
        end
    end
    return now, seen
end

local function answer(client, now, seen)
    local function rows(list)
        local result = {}
        for i, member in ipairs(list or {}) do
            local s = seen[member.label]
            result[i] = { id = member.id, node = member.label, votes = s ~= nil and s.votes,
                epoch = s and s.marker and s.marker.epoch, answers = s ~= nil }
        end
        return list and result
    end
    return { cluster = now.cluster, epoch = now.epoch, online = now.online, list = rows(now.list),
        old = rows(now.old), wait = client.options.max_lease * 1.01 + 1 }
end

-- What a wish would do: the list that it leads to, and who is waited for first.
local function dry_run(client, wish, now, seen)
    local view, err = members.plan(now, wish)
    if view == nil then
        return nil, err
    end
    local found = answer(client, now, seen)
    found.plan = view and { from = record.labels(view.old), to = record.labels(view.list),
        waits_for = members.lacks(view, seen, wish.online) } or nil
    return found
end

--- See client:members.
-- @param client  which is open
-- @param opts    checked by options()
-- @param new     makes a client of options
function _M.run(client, opts, new)
    if not client.guarded then
        return config "there is no list without the restart guard"
    end
    local wish = opts.wish
    local now, seen = look(client)
    if not now or not wish then
        return now and answer(client, now, seen), seen
    end
    local why = client.options.prefix ~= "" and "the list is changed by a client without a prefix"
        or other_names(client, now)
    if why then
        return config("%s", why)
    elseif wish.add and not now.old and not record.find(now.list, wish.add) then
        local view, err = members.plan(now, wish)
        if view then
            view, err = visit(client, wish.add, now, new)
        end
        if not view then
            return nil, err
        end
    end
    if opts.dry_run then
        return dry_run(client, wish, now, seen)
    end
    local ok, err = members.change(lock.new(client, fenced_lock, members.LOCK), wish,
        opts.progress or function() end)
    if not ok then
        return nil, err
    end
    now, seen = look(client)
    return now and answer(client, now, seen), seen
end

--- The options of client:members. Raises a text that says what is wrong.
function _M.options(opts)
    opts = validate.options("options", opts, OPTIONS)
    return { wish = _M.wish(opts), dry_run = opts.dry_run, progress = opts.progress }
end

return _M
