-- The part of the judge (history.lua) that looks at fencing tokens: of holds, and at resources.

local _M = {}

local function who(m)
    return ("client %s.%s"):format(m.c, m.s)
end

-- Unique; and whoever asked after another had got his has a larger one. At any moment the
-- largest token ever returned is a bound for all that are asked for from then on.
local function check_tokens(h)
    local seen, events = {}, {}
    for _, hold in ipairs(h.holds) do
        if hold.token then
            local key = hold.lock .. "\0" .. hold.token
            if seen[key] then
                h:violation(hold.from, hold.lock, ("%s and %s have the same token %.14g")
                    :format(who(seen[key]), who(hold), hold.token))
            end
            seen[key] = hold
            events[#events + 1] = { t = hold.got.a, hold = hold, ask = true }
            events[#events + 1] = { t = hold.got.b, hold = hold }
        end
    end
    table.sort(events, function(a, b)
        if a.t ~= b.t then
            return a.t < b.t
        end
        return (a.ask and 1 or 0) > (b.ask and 1 or 0)
    end)
    local highest = {}
    for _, e in ipairs(events) do
        local hold = e.hold
        local top = highest[hold.lock]
        if e.ask then
            hold.above = top
        elseif hold.above and hold.token <= hold.above.token then
            h:violation(hold.from, hold.lock, ("%s got token %.14g, asked for after %s had got "
                .. "%.14g"):format(who(hold), hold.token, who(hold.above), hold.above.token))
        end
        if not e.ask and (not top or hold.token > top.token) then
            highest[hold.lock] = hold
        end
    end
end

-- Whoever comes in, and is valid then, has a larger token than all who came in before, even if
-- he asked before they got theirs.
local function check_order_of_entry(h)
    local last = {}
    table.sort(h.holds, function(a, b)
        return a.from < b.from
    end)
    for _, hold in ipairs(h.holds) do
        if hold.token and hold.got.left > 0 then
            local before = last[hold.lock]
            if before and hold.token < before.token and hold.got.a < before.from then
                h:violation(hold.from, hold.lock, ("%s came in with token %.14g after %s with "
                    .. "%.14g"):format(who(hold), hold.token, who(before), before.token))
            end
            last[hold.lock] = hold
        end
    end
end

-- ---- a resource that looks at tokens ---------------------------------------------

local function by_value(a, b)
    return a.value < b.value
end

-- Each write adds one to what was read under the same token. So no two write the same value,
-- or an update is lost; and in the order of values, which is theirs at the resource, tokens
-- never go down.
local function check_writes(h, opts)
    local writes, last = {}, {}
    for _, m in ipairs(h.visits) do
        if m.k == "accepted" and m.value then
            writes[#writes + 1] = m
        elseif m.k == "refused" and m.highest <= m.token then
            h:violation(m.a, m.l, ("%s: the resource refused token %.14g, having seen %.14g")
                :format(who(m), m.token, m.highest))
        end
    end
    table.sort(writes, by_value)
    for _, m in ipairs(writes) do
        local before = last[m.l]
        if before and before.value == m.value and opts.tokens then
            h:violation(m.a, m.l, ("%s with token %.14g and %s with %.14g: an update is lost")
                :format(who(before), before.token, who(m), m.token))
        elseif before and m.token < before.token then
            h:violation(m.a, m.l, ("%s wrote with token %.14g after %s with %.14g"):format(
                who(m), m.token, who(before), before.token))
        end
        last[m.l] = m
    end
end

-- Who is inside its validity has the largest token of all.
local function check_refusals(h)
    for _, m in ipairs(h.visits) do
        local hold = h:hold_of(m)
        if m.k == "refused" and hold.to and m.b <= hold.to then
            h:violation(m.a, m.l, ("%s: refused with token %.14g, for %.1f ms more valid")
                :format(who(m), m.token, hold.to - m.b))
        end
    end
end

--- @param h     the history, with the ends of holds
-- @param opts  of history.check
function _M.check(h, opts)
    if opts.tokens then
        check_tokens(h)
    end
    if opts.tokens and opts.claim then
        check_order_of_entry(h)
        check_refusals(h)
    end
    check_writes(h, opts)
end

return _M
