--- Counts the outcomes of calls and holds, for client:stats() and the client's meter
-- (redlock.metrics).

local _M = {}

--- Counts a call that began at `began` and got the lock at `got`.
function _M.acquired(client, name, began, got)
    local counters, meter = client.counters, client.meter
    counters.acquired = counters.acquired + 1
    if meter then
        meter:acquired(name, got - began)
    end
end

-- A function that counts calls or holds of a name; detail: a code, a reason, or nil.
local function counting(word)
    return function(client, name, detail)
        local counters, meter = client.counters, client.meter
        counters[word] = counters[word] + 1
        if meter then
            meter[word](meter, name, detail)
        end
    end
end

_M.failed, _M.lost = counting "failed", counting "lost"
_M.contended = counting "contended"      -- that did not get it at the first attempt

--- Counts the release of a hold, which its owner had until hold.seen, and emits the event. err: of
-- the release, or nil.
function _M.released(client, hold, err)
    local counters, meter = client.counters, client.meter
    if not err then
        counters.released = counters.released + 1
    end
    if meter and err then
        meter:not_released(hold.name, hold.seen - hold.since, err.code)
    elseif meter then
        meter:released(hold.name, hold.seen - hold.since)
    end
    if client.events.fn and (not err or err.code == "unknown") then
        client.events:emit { type = "released", name = hold.name,
            held = hold.seen - hold.since, code = err and err.code or nil,
            traceparent = hold.traceparent }
    end
end

return _M
