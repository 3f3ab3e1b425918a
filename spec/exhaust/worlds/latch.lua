--- A latch for two: the third server missed that A has arrived, and C, who waits, tells it so; B
-- arrives at some moment. It opens then, not before. Who forgot acknowledges no arrival.

return {
    limits = { odd = 1, path = 1, start = 1, fault = 1, order = 0 },
    roles = { arrive = "path", look = "path" },
    run = function(s)
        local c, said, open = s:name(s.world:client(), "C"), 0, nil
        local function arrive(who, client)
            said = said + 1
            local ok, err = client:getCountDownLatch("x"):countDown(who)
            s:log("%s has arrived: %s", who, ok or err)
        end
        s:play(function()
            assert(s.a:getCountDownLatch("x"):trySetCount(2))
            s.world:cut(3)
            arrive("A", s.a)
            s.world:mend(3)
            s:rest("A", 2)
            s:start()
            local err
            open, err = c:getCountDownLatch("x"):await(20)
            s:log("C sees it open: %s", open or err)
            if open and said < 2 then
                s:wrong("a latch for two opens with %d", said)
            end
        end, function()
            arrive("B", s.b)
        end, 4, 20)
        if not open then
            s:wrong "a latch for two does not open"
        end
    end,
}
