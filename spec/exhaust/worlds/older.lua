--- The first server missed what the others have counted for A, and one server may go back to older
-- data, or forget. Long after that B asks.

return {
    limits = { odd = 2, path = 1, start = 0, fault = 1, order = 0 },
    roles = { acquire = "path", confirm = "path" },
    run = function(s, kind)
        local servers = s.world.world.servers
        local function count()
            s.world:cut(1)
            s:hold("A", kind.a(s.a), 0, kind, 0.1)
            s.world:mend(1)
            s:rest("A", 2)
        end
        s:play(function()
            count()
            for _, server in ipairs(servers) do
                s.first[server] = s.copy(server.db)
            end
            count()
            s.other = s.a:getLock("y", { owner = {} })   -- not local: it would be collected
            assert(s.other:lock())       -- its renewals look at the servers
            s:start()
            for i, server in ipairs(servers) do
                s:moment(server, ("when server %d has counted"):format(i))
            end
        end, function()
            s:hold("B", kind.b(s.b), 1, kind, 0.1)
        end, 12, 2)
    end,
}
