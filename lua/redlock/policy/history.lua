--- Events in a file, a line of JSON each, for people who want to know what became of their locks.
--
-- A line has the fields of the event but for owner and time, and besides at (seconds since 1970)
-- and who (the client's label). The file is opened for each line, so many processes can write to
-- one, and it can be renamed at any time.

local card = require "redlock.core.card"
local json = require "redlock.core.json"
local rounds = require "redlock.core.rounds"

local io, pairs, tonumber, type = io, pairs, tonumber, type

local _M = {}

local function append(path, line)
    local file, why = io.open(path, "a")
    if not file then
        return nil, why
    end
    file:setvbuf "no"            -- one write: lines of others do not get in between
    local ok
    ok, why = file:write(line)
    local closed, late = file:close()
    return ok and closed, why or late
end

--- What writes the events of a client to the file of its option `history`.
-- @param client  whose they are
-- @param fn      the user's function, or nil
-- @return a function(e), as on_event
function _M.writer(client, fn)
    local failed = false
    return function(e)
        local row = {}
        for field, value in pairs(e) do
            row[field] = value
        end
        row.owner, row.time = nil, nil
        row.at = tonumber(rounds.load().rl_unix_ms()) / 1000
        row.who = client.label and card.of_process(client.label) or nil
        local ok, why = append(client.options.history, json.encode(row) .. "\n")
        if not ok and not failed then
            client.host.log("no history is written: " .. why)
        end
        failed = not ok
        if fn then
            fn(e)
        end
    end
end

local LAST = 2 ^ 37           -- no date is later
local WHAT = { acquired = "taken", released = "released", lost = "lost" }

--- What became of locks.
-- @param lines  an iterator over the lines of such a file
-- @return a list of { name, events = { { at, what ("taken", "released", "lost"), who, waited, held,
--   reason, by }, ... } }, in the order of the file; and how many lines are no events
function _M.read(lines)
    local list, by_name, strange = {}, {}, 0
    for line in lines do
        local e = json.decode(line)
        if type(e) ~= "table" or type(e.type) ~= "string" then
            strange = strange + 1
        elseif WHAT[e.type] and type(e.name) == "string" and type(e.at) == "number"
            and e.at >= 0 and e.at < LAST then
            local one = by_name[e.name]
            if not one then
                one = { name = e.name, events = {} }
                by_name[e.name], list[#list + 1] = one, one
            end
            local holder = type(e.holder) == "table" and e.holder.label or nil
            one.events[#one.events + 1] = { at = e.at, what = WHAT[e.type], who = e.who,
                waited = tonumber(e.waited), held = tonumber(e.held), reason = e.reason,
                by = holder, code = e.code }
        end
    end
    return list, strange
end

return _M
