--- What calls came to, as they end: counted for client:stats(), and told to the client's meter if
-- there is one (redlock.metrics).

local _M = {}

--- A call has got its lock.
-- @param client  whose counters they are
-- @param name    of the lock
-- @param began   when the call did
-- @param got     when the lock was had
function _M.acquired(client, name, began, got)
    local counters, meter = client.counters, client.meter
    counters.acquired = counters.acquired + 1
    if meter then
        meter:acquired(name, got - began)
    end
end

--- A call has ended without its lock.
function _M.failed(client, name, code)
    client.counters.failed = client.counters.failed + 1
    if client.meter then
        client.meter:failed(name, code)
    end
end

--- A call did not get it at the first attempt.
function _M.contended(client, name)
    client.counters.contended = client.counters.contended + 1
    if client.meter then
        client.meter:contended(name)
    end
end

--- A hold was let go, at a time that is its `looked` now; told also who listens to events.
-- @param client  whose counters they are
-- @param hold    one that was of client.holds
-- @param err     nil: all is well
function _M.released(client, hold, err)
    local counters, meter = client.counters, client.meter
    if not err then
        counters.released = counters.released + 1
    end
    if meter and err then
        meter:not_released(hold.name, hold.looked - hold.since, err.code)
    elseif meter then
        meter:released(hold.name, hold.looked - hold.since)
    end
    if client.events.fn and (not err or err.code == "unknown") then
        client.events:emit { type = "released", name = hold.name,
            held = hold.looked - hold.since, code = err and err.code or nil,
            traceparent = hold.traceparent }
    end
end

--- A hold was lost.
function _M.lost(client, name, reason)
    client.counters.lost = client.counters.lost + 1
    if client.meter then
        client.meter:lost(name, reason)
    end
end

return _M
