--- A holds and renews, and may get into trouble; B asks at some moment, and waits. One holder; A is
-- told before its validity ends; B is served.

return {
    in_trouble = "A",
    limits = { odd = 2, path = 2, start = 1, fault = 1, client = 2, order = 1 },
    roles = { extend = "path", heal = "path", acquire = "path", confirm = "path" },
    run = function(s, kind)
        local served
        s:play(function()
            s:start()
            s:keep("A", kind.a(s.a), s.lease * 0.8)      -- two renewals
        end, function()
            served = s:hold("B", kind.b(s.b), 40, kind, 0.1)
        end, s.lease + 0.5, 40)
        if not served then
            s:wrong("B is not served")
        end
    end,
}
