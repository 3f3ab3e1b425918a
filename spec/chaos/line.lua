-- The part of the judge (history.lua) that looks at the order in which a fair lock is served.
--
-- Who stood in the queues of the same majority of servers from before a call began until that had
-- the lock was to be served before it: on one of these servers at least the other one saw the place
-- when it drew its ticket, so that its own is larger; and one of them has given it the lock, which
-- gives it to the smallest only. Nothing is demanded for places that may have been lost meanwhile:
-- where a server may have forgotten, or its clock was stepped; where who waits did not come again
-- within the time that a place is kept; and where an attempt may have got the lock that a majority
-- may have given it: the place goes with that when it is let go, however late.
local _M = {}

local function who(hold)
    return ("client %s.%s"):format(hold.c, hold.s)
end

-- The first time within [from, to] at which a server may have lost what it knew, or nil.
local function first_shake(h, server, from, to)
    local first
    for _, shake in ipairs(h.shaken[server] or {}) do
        if shake.from <= to and from <= shake.to then
            first = math.min(first or math.huge, shake.from)
        end
    end
    return first
end

-- A place on one server: since an attempt that lay between `asked` and `from`, and until `to` at
-- the least.
local function add(h, places, m, server, opts)
    local last = places[#places]
    local going_on = last and m.b <= last.to
    local shake = first_shake(h, server, going_on and last.asked or m.a, m.b)
    if going_on and not shake then
        last.to = m.a + opts.place_ms
        return
    elseif going_on then
        last.to = math.min(last.to, shake)
    end
    if not first_shake(h, server, m.a, m.b) then
        places[#places + 1] = { asked = m.a, from = m.b, to = m.a + opts.place_ms }
    end
end

-- Whether a majority may have given the lock in an attempt.
local function may_be_announced(m, opts)
    return m.no <= opts.nodes - (math.floor(opts.nodes / 2) + 1)
end

-- What is known of a server ends with such an attempt, unless that was refused there.
local function give_up_others(places, m, refused)
    for server, list in pairs(places) do
        if not refused[server] then
            local last = list[#list]
            list.over = true
            if last then
                last.to = math.min(last.to, m.a)
            end
        end
    end
end

-- @return by server, a list of places; and until when they are known
local function places_of(h, hold, opts)
    local places, last = {}, nil
    for server = 1, opts.nodes do
        places[server] = {}
    end
    for _, m in ipairs(hold.stands) do
        if last and m.try ~= last.try + 1 then
            break
        end
        local refused = {}
        for _, server in ipairs(m.servers) do
            refused[server] = true
            if not places[server].over then
                add(h, places[server], m, server, opts)
            end
        end
        if may_be_announced(m, opts) then
            give_up_others(places, m, refused)
        end
        last = m
    end
    return places, last and last.b
end

-- Whether a majority has kept the place all the time.
local function stands(h, waiter, from, to, opts)
    local n = 0
    for server, places in pairs(waiter.places) do
        for _, place in ipairs(places) do
            if place.from <= from and to <= place.to
                and not first_shake(h, server, place.asked, to) then
                n = n + 1
            end
        end
    end
    return n >= math.floor(opts.nodes / 2) + 1
end

local function by_call(a, b)
    return a.called.a < b.called.a
end

-- By lock: who stood in line, and who was served, in the order of their calls.
local function read(h, opts)
    local waiters, served = {}, {}
    for _, hold in pairs(h.by_key) do
        local call = hold.called
        if call and call.how == "fair" then
            waiters[call.l], served[call.l] = waiters[call.l] or {}, served[call.l] or {}
            if hold.got then
                table.insert(served[call.l], hold)
            end
            local places, to = places_of(h, hold, opts)
            if to then
                table.insert(waiters[call.l], { hold = hold, places = places, to = to,
                    from = hold.stands[1].b })
            end
        end
    end
    for _, list in pairs(served) do
        table.sort(list, by_call)
    end
    return waiters, served
end

-- The first call of the list that began later than that.
local function first_after(list, t)
    local low, high = 1, #list + 1
    while low < high do
        local i = math.floor((low + high) / 2)
        if list[i].called.a > t then
            high = i
        else
            low = i + 1
        end
    end
    return low
end

--- @param h     the history
-- @param opts  of history.check
function _M.check(h, opts)
    local waiters, served = read(h, opts)
    for lock, list in pairs(waiters) do
        local calls = served[lock]
        for _, waiter in ipairs(list) do
            for i = first_after(calls, waiter.from), #calls do
                local call = calls[i]
                if call.called.a > waiter.to then
                    break
                end
                local came = call.called.a
                if stands(h, waiter, came, came, opts) then
                    h.counts.behind = h.counts.behind + 1
                    if call.from <= waiter.to and stands(h, waiter, came, call.from, opts) then
                        h:violation(call.from, lock, ("%s has '%s' before %s, who stood in line "
                            .. "for it when that came"):format(who(call), lock, who(waiter.hold)))
                    end
                end
            end
        end
    end
end

return _M
