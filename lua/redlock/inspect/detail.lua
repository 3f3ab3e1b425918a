--- All that a majority of the servers knows of one name: readers, permits, a latch, a queue.

local answers = require "redlock.runtime.answers"
local question = require "redlock.runtime.question"
local median = require("redlock.runtime.limits").median
local script_text = require "redlock.runtime.script_text"

local ipairs, pairs, tonumber = ipairs, pairs, tonumber
local match, sub, huge, sort = string.match, string.sub, math.huge, table.sort

local _M = {}

local DETAIL = script_text.own("now", "inspect.detail")
local LISTS = { r = "readers", p = "permits", q = "queue", l = "latches" }

-- Merges one server's rows into `all`: a reader, permit, waiter or latch -> each server's number.
local function read(data, all, waiting)
    local at, seen = 1, {}
    while at <= #data do
        local kind, a, b, len, from = match(data, "^(%l) (%d+) (%d+) (%d+):()", at)
        if not from or from + len - 1 > #data then
            return               -- not our script's answer
        end
        at = from + tonumber(len)
        local text = sub(data, from, at - 1)
        local waiter, who = match(text, "^(%S+) (.*)$")
        local id = kind == "q" and "q" .. (waiter or "") or kind .. b .. " " .. text
        if id == "q" then        -- not the library's: skipped
            seen[id] = true
        elseif kind == "w" then
            waiting.lock[#waiting.lock + 1] = tonumber(a)
            waiting.permits[#waiting.permits + 1] = tonumber(b)
        elseif LISTS[kind] and not seen[id] then
            seen[id] = true
            all[id] = all[id] or { kind = kind, slot = tonumber(b), numbers = {},
                who = kind == "q" and who or text }
            all[id].numbers[#all[id].numbers + 1] = tonumber(a)
        end
    end
end

local function row_of(client, one)
    local q = client.quorum
    local its = answers.card(client, one.who, 20) or {}
    sort(one.numbers, function(a, b) return a > b end)
    local row = { hold = sub(one.who, 1, 8), label = its.label, since = its.since }
    if one.kind == "l" then
        return { missing = one.numbers[#one.numbers - q + 1], count = one.slot }
    elseif one.kind == "q" then
        row.ticket, row.hold = one.numbers[q], nil
    else
        row.remaining = one.numbers[q] / 1000
        row.slot = one.kind == "p" and one.slot or nil
    end
    return row
end

--- Asks the servers about a lock's name. silent: servers that are not asked, by place; or nil.
-- @return { readers, permits, queue (lists of { hold, label, since, remaining, slot, ticket }),
--   latch ({ missing, count }; nil: none, or open), waiting, waiting_for_permits, busy (there are
--   permits or a latch) }; nil: fewer than a majority answered
function _M.ask(client, name, silent)
    local key = client.options.prefix .. name
    local own, asked = "redlock:{" .. key .. "}:", {}
    for place = 1, client.size do
        asked[#asked + 1] = not (silent and silent[place]) and { body = DETAIL, place = place,
            keys = { key, own .. "slots", own .. "who", own .. "queue", own .. "standing",
                own .. "living", own .. "latch", own .. "arrived" },
            args = { own .. "free", "redlock:{" .. key .. ":slots}:free" } } or nil
    end
    local all, waiting, n = {}, { lock = {}, permits = {} }, 0
    for _, said in ipairs(question.ask_each(client, asked)) do
        if said.vote == 1 then
            n = n + 1
            read(said.data, all, waiting)
        end
    end
    local q = client.quorum
    if n < q then
        return nil
    end
    local result = { readers = {}, permits = {}, queue = {}, latches = {},
        waiting = median(waiting.lock), waiting_for_permits = median(waiting.permits) }
    for _, one in pairs(all) do
        if #one.numbers >= q then
            local list = result[LISTS[one.kind]]
            list[#list + 1] = row_of(client, one)
        end
    end
    for field, list in pairs { remaining = result.readers, slot = result.permits,
        ticket = result.queue } do
        sort(list, function(a, b) return a[field] < b[field] end)
    end
    result.latch, result.latches = result.latches[1], nil
    result.busy = result.permits[1] ~= nil or result.latch ~= nil
    return result
end

--- Like lock:holder(), for any kind: also where permits are taken or a latch is closed.
function _M.holder(lock)
    local holder, err = lock:holder()
    local found = holder == false and _M.ask(lock.client, lock.name)
    if found and found.busy then
        return { remaining = found.permits[1] and found.permits[1].remaining or huge }
    end
    return holder, err
end

return _M
