--- Records of lists of servers, as the servers keep them: see c/core/view.h for the text.

local hash = require "redlock.core.hash"

local ipairs, tonumber = ipairs, tonumber
local format, match, gmatch, gsub, concat = string.format, string.match, string.gmatch,
    string.gsub, table.concat

local _M = {}

_M.MAX = 4096                 -- bytes of a record
local WAS = 4                 -- lists before that it names
local FIRST = 32              -- numbers of members from here on tell in which change they came

-- { id, label } of each " ID=LABEL".
local function members(text)
    local list = {}
    for id, label in gmatch(text or "", " (%d+)=(%S+)") do
        list[#list + 1] = { id = tonumber(id), label = label }
    end
    return list
end

--- What a record says.
-- @param text  of redlock:{server}:members
-- @return { cluster, epoch, online (quarantines end by the strict rule), old (nil when stable)
--   and list ({ id, label } each), was ({ epoch, text } each), by }; or nil: it is none
function _M.parse(text)
    local cluster, epoch = match(text, "^v2 (%x+) (%d+)\n")
    local list, by = members(match(text, "\nnew([^\n]*)\n")), match(text, "\nby (%d+)\n$")
    if not cluster or not by or #list == 0 then
        return nil
    end
    local was = {}
    for when, labels in gmatch(text, "\nwas (%d+) ([^\n]*)") do
        was[#was + 1] = { epoch = tonumber(when), labels = labels }
    end
    local old = match(text, "\nold([^\n]*)\n")
    return { cluster = cluster, epoch = tonumber(epoch), list = list, was = was,
        old = old and members(old) or nil, by = tonumber(by),
        online = match(text, "\nonline\n") ~= nil }
end

local function line(word, list)
    local words = { word }
    for _, member in ipairs(list) do
        words[#words + 1] = format("%d=%s", member.id, member.label)
    end
    return concat(words, " ") .. "\n"
end

--- The labels of a list, with a space between two.
function _M.labels(list)
    local labels = {}
    for i, member in ipairs(list) do
        labels[i] = member.label
    end
    return concat(labels, " ")
end

--- The text of a record.
function _M.write(record)
    local lines = { format("v2 %s %d\n", record.cluster, record.epoch) }
    if record.online then
        lines[#lines + 1] = "online\n"
    end
    if record.old then
        lines[#lines + 1] = line("old", record.old)
    end
    lines[#lines + 1] = line("new", record.list)
    for _, was in ipairs(record.was) do
        lines[#lines + 1] = format("was %d %s\n", was.epoch, was.labels)
    end
    lines[#lines + 1] = format("by %.0f\n", record.by)
    return concat(lines)
end

--- How a marker names the list of a record: cluster, epoch, and a hash of all but who wrote it.
function _M.name(record)
    local text = gsub(_M.write(record), "by %d+\n$", "")
    return format("%s.%d.%08x", record.cluster, record.epoch, hash(text))
end

--- Where a label is in a list; nil: it is not there.
function _M.find(list, label)
    for i, member in ipairs(list) do
        if member.label == label then
            return i
        end
    end
end

local function copy(list)
    local other = {}
    for i, member in ipairs(list) do
        other[i] = member
    end
    return other
end

--- The step from a stable list towards another.
-- @param record  a stable one
-- @param wish    { add = label, remove = label, online = true }; add and remove: it replaces
-- @param by      the token of who writes it
-- @return the record of the joint view
function _M.joint(record, wish, by)
    local list, at = copy(record.list), #record.list + 1
    if wish.remove then
        at = _M.find(list, wish.remove)
        table.remove(list, at)
    end
    if wish.add then
        table.insert(list, at, { id = FIRST + record.epoch + 1, label = wish.add })
    end
    return { cluster = record.cluster, epoch = record.epoch + 1, old = record.list, list = list,
        was = record.was, by = by, online = record.online or wish.online or false }
end

--- The step from a joint view to its new list.
function _M.stable(record)
    local was = { { epoch = record.epoch - 1, labels = _M.labels(record.old) } }
    for i = 1, WAS - 1 do
        was[#was + 1] = record.was[i]
    end
    return { cluster = record.cluster, epoch = record.epoch + 1, list = record.list, was = was,
        by = record.by, online = record.online }
end

return _M
