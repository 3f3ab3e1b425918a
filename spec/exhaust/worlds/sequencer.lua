--- A holds with a token, and releases; B, at some moment, asks if A's token is current, takes the
-- name without one, and asks again. It is not once A has released.

return {
    limits = { odd = 1, path = 1, start = 1, fault = 1, order = 0 },
    roles = { acquire = "path", confirm = "path", release = "path", current = "path" },
    run = function(s, kind)
        local hold, text, over
        s:play(function()
            s:start()
            local a = kind.a(s.a)
            local ok, token = a:tryLock(0, s.lease)
            if ok then
                hold, text = s:got("A", a, token), a:sequencer()
                s:rest("A", 0.5)
                s:gone(hold)
                over, hold = a:unlock(), nil
            end
        end, function()
            local plain, one = s.b:getLock("x", { owner = {} }), hold
            local current = text and s.b:checkSequencer(text)
            if current == false and one and one == hold and one.lock:remaining() > 0 then
                s:wrong("B hears that A's token is not current, while A holds")
            end
            plain:tryLock(5, s.lease)
            local released = over
            current = text and s.b:checkSequencer(text)
            if current and released then
                s:wrong("B hears that A's token is current, and A had released")
            end
        end, 1, 6)
    end,
}
