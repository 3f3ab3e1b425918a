--- A exports its hold; two import it, one after the other, and one of them releases. One owner.

local stage = require "spec.exhaust.stage"

return {
    odd = 2,
    limits = { path = 2, start = 1, fault = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", import = "path", export = "path",
        release = "path", heal = "path" },
    run = function(s, kind)
        local c, transfer = s.world:client(), nil
        local function import(who, client)
            local lock, err = client:import(transfer, { owner = {} })
            if not lock then
                s:log("%s imports nothing: %s", who, err)
                return
            end
            local hold = s:got(who, lock)
            s.world:advance(0.5)
            s:gone(hold)
            lock:unlock()
        end
        s:name(c, "C")
        s:play(function()
            s:start()
            local a = kind.a(s.a)
            if a:tryLock(0, stage.LEASE) then
                transfer = a:export()
                s:moment(nil, "after the export")
            end
        end, function()
            if transfer then
                s.world:spawn(import, "C", c)
                import("B", s.b)
            end
        end, stage.LEASE + 0.5, 5)
    end,
}
