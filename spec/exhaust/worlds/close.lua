--- A closes its client at some moment, while it takes a name, and holds another one. The close ends
-- in time, and B gets both names, which nobody has.

return {
    limits = { odd = 2, path = 2, start = 1, fault = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", release = "path" },
    run = function(s, kind)
        local served = 0
        s:play(function()
            -- Kept: what has an owner who was collected is released, whenever that is.
            s.kept = { s.a:getLock("y", { owner = {} }), kind.a(s.a) }
            assert(s.kept[1]:tryLock(0, s.lease))
            s:start()
            local ok = s.kept[2]:tryLock(0, s.lease)
            s:log("A has it: %s", tostring(ok))
        end, function()
            local began = s.world:now()
            s.a:close()
            s.open = false
            s:log("A has closed its client")
            if s.world:now() - began > 0.2 then
                s:wrong("a close takes %.3f s", s.world:now() - began)
            end
            for _, lock in ipairs { s.b:getLock("y", { owner = {} }), kind.b(s.b) } do
                served = served + (lock:tryLock(12, s.lease) and lock:unlock() and 1 or 0)
            end
        end, 2, 25)
        if served < 2 then
            s:wrong("B gets %d of 2 names", served)
        end
    end,
}
