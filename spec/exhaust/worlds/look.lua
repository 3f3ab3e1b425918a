--- A takes a name and holds it; B looks, at some moment. It hears of nobody only where A did not
-- hold all the time.

return {
    limits = { odd = 2, path = 2, start = 1, fault = 1, order = 0 },
    roles = { acquire = "path", confirm = "path", peek = "path" },
    run = function(s, kind)
        s:play(function()
            s:start()
            s:hold("A", kind.a(s.a), 0, kind, s.lease + 0.1)
        end, function()
            local one = s.holds[1]
            local locked = kind.b(s.b):isLocked()
            if locked == false and one and one == s.holds[1] and one.lock:remaining() > 0 then
                s:wrong("B hears that nobody holds what A holds")
            end
        end, 0.3, 0.6)
    end,
}
