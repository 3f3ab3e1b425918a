--- A takes a name and holds it; B looks, at some moment. It hears of nobody only where A did not
-- hold all the time. A asks again when its lease has ended, and hears nothing of that hold.

return {
    limits = { odd = 2, path = 2, start = 1, fault = 1, order = 0 },
    roles = { acquire = "path", confirm = "path", peek = "path" },
    run = function(s, kind)
        s:play(function()
            s:start()
            s:hold("A", kind.a(s.a), 0, kind, 2 * s.lease)
        end, function()
            local one = s.holds[1]
            local locked = kind.b(s.b):isLocked()
            if locked == false and one and one == s.holds[1] and one.lock:remaining() > 0 then
                s:wrong("B hears that nobody holds what A holds")
            end
        end, 0.3, 0.6)
        s:pass(s.lease)
        local ended = table.remove(s.holds)
        if ended then
            local ok, err = ended.lock:tryLock(0, s.lease)
            if ok then
                s:got("A", ended.lock)
            elseif err.code == "lost" then
                s:wrong("A asks anew, and hears of the hold before")
            end
        end
    end,
}
