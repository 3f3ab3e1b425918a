--- A and B keep a name each; servers lose their memory, one or two. None of these votes, or gets a
-- floor, before its quarantine has ended; then B's next call is served.

return {
    limits = { odd = 3, path = 2, start = 0, fault = 2, order = 1 },
    faults_for = 2.2,
    roles = { marker = "path", mark = "path", floors = "path", life = "moment" },
    run = function(s, kind)
        s:play(function()
            s:start()
            s:keep("A", kind.a(s.a), 7)
        end, function()
            if not s:hold("B", kind.b(s.b), 40, kind, 0.1) then
                s:wrong("B is not served")
            end
        end, 7.5, 40)
    end,
}
