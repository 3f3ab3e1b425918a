--- All servers forget while A, which knows them, holds; B, the operator, runs init at some moment,
-- and then takes the name. It gets nothing while A holds (H6: A is told, and connected).

return {
    lease = 12,              -- longer than what init waits for
    limits = { odd = 2, path = 2, start = 1, fault = 0, order = 1 },
    roles = { marker = "path", mark = "path" },
    run = function(s, kind)
        s:play(function()
            local a = kind.a(s.a)
            assert(a:tryLock(0, 12))
            s:got("A", a)
            s:start()
            for i = 1, 3 do
                s:forget(i)
                s:moment(nil, ("after server %d has forgotten"):format(i))
            end
        end, function()
            local ok, err = s.b:init()
            s:log("init: %s", ok or err)
            s:hold("B", kind.b(s.b), 0, kind, 0.1)
        end, 12.5, 0)
    end,
}
