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

local PATIENCE = 5            -- seconds for what may end soon: late answers, others' connections

-- Whether what is wrong passes by itself, or by a start of the server.
local function passes(row, found)
    local code = found.kind == "marker" and row.marker_code or found.kind
    return code == "guarded" or code == "clock_step" or code == "slow" or found.kind == "tokens"
        or code ~= "tls" and node_codes[code] and node_codes[code].passes
end

-- What these servers wait for; nil: nothing, as all are ready, or something else is wrong. Then
-- whether that is worth more than patience; and whether others have to teach fencing tokens.
local function awaited(rows)
    local list, more, untaught = {}, false, false
    for _, row in ipairs(rows) do
        local lacks = row.verdict ~= "error" and row.floors == "none" and row.guard ~= "off"
            and not row.marker_code
        local why = lacks and "its fencing tokens, which others teach it" or row.why
        for _, found in ipairs(row.findings) do
            if found.verdict == "error" and not passes(row, found) then
                return nil
            end
            more = more or found.verdict == "error" and found.kind ~= "slow"
            why = why or found.verdict == "error" and found.kind
                or found.kind == "lists" and "clients of another list"
        end
        list[#list + 1] = why and ("%s (%s)"):format(row.node, why) or nil
        untaught = untaught or lacks
    end
    return list[1] and table.concat(list, ", "), more or untaught, untaught
end

--- Waits until all servers vote and know the floors of fencing tokens, which the others teach them,
-- or one of them needs help. Reports what it waits for.
-- @return the last report of client:check(); or nil and an error; or nil, nil and the number of the
--   signal that ended the wait
function _M.until_ready(client)
    local told, since
    process.catch()
    while true do
        local found, err = client:check()
        local list, more, untaught = awaited(found or {})
        since = not more and since or process.now()
        if not list or process.now() >= since + PATIENCE then
            return found, err
        elseif list ~= told then
            report.note("waiting for ", list)
            told = list
        end
        if untaught then
            rounds.teach(client)
        end
        local signo = _M.pause(PAUSE)
        if signo then
            return nil, nil, signo
        end
    end
end

return _M
