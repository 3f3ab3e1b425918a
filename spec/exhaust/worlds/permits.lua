--- A and B keep one of two permits each, and C waits for one. Holders have slots of their own, and
-- no server extends another one.

return {
    limits = { odd = 1, path = 1, start = 1, fault = 1, order = 0 },
    roles = { acquire = "path" },
    run = function(s)
        local c, held = s:name(s.world:client(), "C"), {}
        local function keep(who, client, seconds)
            local permit, err = client:getSemaphore("x", 2):acquire(s.lease)
            if not permit then
                return s:log("%s gets none: %s", who, err)
            end
            s:log("%s gets slot %d", who, permit:slot())
            if permit:slot() > 2 then
                s:wrong("%s gets slot %d of 2", who, permit:slot())
            end
            for name, other in pairs(held) do
                if other:slot() == permit:slot() and other:remaining() > 0 then
                    s:wrong("%s and %s have slot %d", name, who, permit:slot())
                end
            end
            held[who] = permit
            s:rest(who, 0.5)
            s:log("%s extends it: %s", who, tostring(permit:extend(s.lease)))
            s:rest(who, seconds)
            permit:release()
            held[who] = nil
        end
        s:play(function()
            s:start()
            keep("A", s.a, 1)
        end, function()
            s.world:spawn(keep, "C", c, 0.1)
            keep("B", s.b, 1)
        end, 2, 5)
    end,
}
