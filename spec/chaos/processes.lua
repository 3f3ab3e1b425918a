-- What is demanded of the processes of clients (history.lua): that they end, and do not grow.
local _M = {}

--- What those that lived to the end have more than when they began, at most.
function _M.growth(h)
    local growth = { clients = 0, seconds = 0, fds = 0, rss = 0, lua = 0 }
    for _, p in pairs(h.processes) do
        local began, settled = p.began, p.settled
        if settled then
            growth.clients = growth.clients + 1
            growth.seconds = math.max(growth.seconds, (settled.a - began.a) / 1000)
            for _, what in ipairs { "fds", "rss", "lua" } do
                growth[what] = math.max(growth[what], settled[what] - began[what])
            end
        end
    end
    return growth
end

--- Notes as violations who never settled, and who grew by more than opts.max_fds, max_rss_kib or
-- max_lua_kib.
function _M.check(h, opts)
    for c, p in pairs(h.processes) do
        local settled = p.settled
        if not settled then
            if not h.deaths[c] then
                h:violation(p.began.a, nil, ("client %s never settled"):format(c))
            end
        elseif settled.fds > p.began.fds + opts.max_fds then
            h:violation(settled.a, nil, ("client %s has %d descriptors open, had %d at first")
                :format(c, settled.fds, p.began.fds))
        elseif settled.rss > p.began.rss + opts.max_rss_kib then
            h:violation(settled.a, nil, ("client %s has %d KiB resident, had %d at first")
                :format(c, settled.rss, p.began.rss))
        elseif settled.lua > p.began.lua + opts.max_lua_kib then
            h:violation(settled.a, nil, ("client %s has %d KiB of Lua, had %d at first")
                :format(c, settled.lua, p.began.lua))
        end
    end
end

return _M
