--- Waits with the servers until they vote: quarantines advance only while a client is connected.

local node_codes = require "redlock.runtime.node_codes"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"
local rounds = require "redlock.runtime.rounds"

local _M = {}

local PAUSE = 0.5             -- seconds between two checks of the servers

--- Signals that end a command.
_M.ENDING = { [process.INT] = true, [process.TERM] = true, [process.HUP] = true,
    [process.QUIT] = true }

--- Sleeps. Call process.catch() first.
-- @return the number of a signal that is to end the command; nil: none came
function _M.pause(seconds)
    local ends = process.now() + seconds
    repeat
        local signo = process.signal(math.max(ends - process.now(), 0))
        if _M.ENDING[signo or 0] then
            return signo
        end
    until not signo
end

-- Whether the server may vote after a while, without any repair but a start.
local function may_come(row)
    local code = node_codes[row.code]
    return row.guard == "guarded" or row.suspect_left > 0
        or not row.ready and (code.silent or row.code == "loading" or row.code == "guarded")
end

-- What these servers wait for; nil: nothing, as all vote, or something else is wrong.
local function awaited(rows)
    local list = {}
    for _, row in ipairs(rows) do
        if row.verdict == "error" and not may_come(row) then
            return nil
        elseif row.verdict == "error" then
            list[#list + 1] = row.node .. " (" .. (row.why or row.code) .. ")"
        end
    end
    return #list > 0 and table.concat(list, ", ") or nil
end

-- Waits until all servers vote, or one of them needs help. Reports what it waits for.
-- @return as until_ready()
local function until_all_vote(client)
    local told
    process.catch()
    while true do
        local found, err = client:check()
        local list = found and awaited(found)
        if not list then
            return found, err
        elseif list ~= told then
            report.note("waiting for ", list)
            told = list
        end
        local signo = _M.pause(PAUSE)
        if signo then
            return nil, nil, signo
        end
    end
end

-- The voting servers that have no floors, or did not say, as a text; nil: none.
local function lack_floors(rows)
    local list = {}
    for _, row in ipairs(rows) do
        if row.verdict ~= "error" and not row.marker_code
            and (row.floors == "none" or row.floors == "no answer") then
            list[#list + 1] = row.node
        end
    end
    return #list > 0 and table.concat(list, ", ") or nil
end

--- Waits until all servers vote and know the floors of fencing tokens, which the others teach them.
-- @return the last report of client:check(); or nil and an error; or nil, nil and the number of the
--   signal that ended the wait
function _M.until_ready(client)
    local told
    while true do
        local found, err, signo = until_all_vote(client)
        local list = found and lack_floors(found)
        if not list then
            return found, err, signo
        elseif list ~= told then
            report.note("waiting until others teach the fencing tokens to ", list)
            told = list
        end
        rounds.teach(client)
        signo = _M.pause(PAUSE)
        if signo then
            return nil, nil, signo
        end
    end
end

return _M
