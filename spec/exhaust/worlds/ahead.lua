--- Two ask, each once, for a name whose counters differ: the first server missed a hold, and the
-- third one alone has counted attempts.

return {
    limits = { odd = 2, path = 2, start = 0, fault = 1, order = 1 },
    roles = { acquire = "path", confirm = "path" },
    run = function(s, kind)
        local a = kind.a(s.a)
        local function alone(...)
            for _, i in ipairs { ... } do s.world:cut(i) end
            local ok = a:tryLock(0, s.lease) and a:unlock()
            s:log("A had it: %s", tostring(ok))
            for _, i in ipairs { ... } do s.world:mend(i) end
            s:rest("A", 2)
        end
        s:play(function()
            alone(1)
            alone(1, 2)
            alone(1, 2)
            s:start()
            s:hold("A", a, 0, kind, 0.5)
        end, function()
            s:hold("B", kind.b(s.b), 2, kind, 0.1)
        end, 10, 5)
    end,
}
