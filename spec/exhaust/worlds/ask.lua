--- Two who ask for one name, each once. At most one holds; tokens grow.

return {
    odd = 2,
    in_trouble = "A",
    limits = { path = 2, start = 1, fault = 1, client = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", release = "path", peek = "path" },
    run = function(s, kind)
        s:play(function()
            s:start()
            s:hold("A", kind.a(s.a), 0, kind, s.lease + 0.1)
        end, function()
            local lock, one = kind.b(s.b), s.holds[1]
            local locked = not kind.nests or lock:isLocked()
            if locked == false and one and one == s.holds[1] and one.lock:remaining() > 0 then
                s:wrong("B hears that nobody holds what %s holds", one.who)
            end
            s:hold("B", lock, 0, kind, s.lease + 0.1)
        end, s.lease + 0.5, 0)
    end,
}
