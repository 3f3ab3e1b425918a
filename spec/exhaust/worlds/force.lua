--- A holds and renews; B, the operator, frees the name at some moment; C, who waits, gets it. A is
-- told soon; nothing of C's is freed.

return {
    limits = { odd = 2, path = 1, start = 1, fault = 1, order = 0 },
    roles = { extend = "path", force = "path", acquire = "path" },
    run = function(s, kind)
        local c = s:name(s.world:client(), "C")
        s:play(function()
            s:start()
            s:keep("A", kind.a(s.a), 3, kind.deaf)
        end, function()
            s.forced = "A"          -- whom nobody asks
            s.world:spawn(function()
                for _ = 1, 2 do
                    s:hold("C", kind.b(c), 10, kind, 1.5)
                end
            end)
            local ok, err = kind.b(s.b):forceUnlock()
            s:log("B frees it: %s", ok or err)
        end, s.lease + 0.5, 5)
    end,
}
