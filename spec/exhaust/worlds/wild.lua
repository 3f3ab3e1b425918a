--- The first server has a floor that no counter can have come to, and one loses its memory, as in
-- quarantine.lua. Nobody is taught that. B may need an operator.

local FLOOR = require("spec.sim.base_step").KEY

return setmetatable({
    limits = { odd = 2, path = 1, start = 0, fault = 1, order = 0 },
    run = function(s, kind)
        local server, floors = s.world.world.servers[1], {}
        for field, text in pairs(server.db[FLOOR].value) do
            floors[field] = text
        end
        floors.most = floors.base:sub(1, 8) .. "60000000000000"
        server.db[FLOOR] = { value = floors }
        s:play(function()
            s:start()
            s:keep("A", kind.a(s.a), 7)
        end, function()
            s:hold("B", kind.b(s.b), 1, kind, 0.1)
        end, 7.5, 0)
    end,
}, { __index = require "spec.exhaust.worlds.quarantine" })
