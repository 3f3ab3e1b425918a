--- Three owners in A's process take turns, beside B in another one; a fourth has ended without a
-- release. What passes on is as good as new, and not for ever; what a fifth keeps stays.

local HANDOVER = 2

return {
    options = { handover = HANDOVER },
    limits = { odd = 2, path = 1, start = 0, fault = 1, order = 1 },
    faults_for = 0.2,
    roles = { acquire = "path", release = "path" },
    run = function(s, kind)
        local row, value, kept, served = 0, nil, nil, 0
        local function take(seconds)
            local lock = kind.a(s.a)
            local ok, token = lock:tryLock(20, s.lease)
            if not ok then
                return
            end
            local hold = s:got("A", lock, kind.tokens and tonumber(token) or nil)
            row = s.asked.A == value and row + 1 or 0
            value, served = s.asked.A, served + 1
            if row > HANDOVER then
                s:wrong("a hold passes on %d times", row)
            elseif row > 0 and lock:remaining() < s.lease * 0.98 - 0.002 then
                s:wrong("a hold passes on with %.3f s left", lock:remaining())
            end
            s:rest("A", seconds)
            s:release(hold, lock)
        end
        s:play(function()
            local y = s.a:getLock("y", { owner = {} })
            assert(y:lock() and y:onLost(function() s:wrong("what is kept is lost") end))
            s.world:spawn(function() s.a:getLock("z"):lock() end)
            s:start()
            s.world:spawn(s.hold, s, "B", kind.b(s.b), 20, kind, 0.1)
            for i = 1, 4 do
                s.world:spawn(take, i == 1 and 0.045 or 0.001)
            end
            take(0.001)
            s:rest("A", 4)
            kept = y:isValid() and y:unlock()
        end, function() end, s.lease + 0.5, 20)
        if served < 5 or not kept then
            s:wrong("%d of 5 owners were served, and another one %s what it keeps", served,
                kept and "has" or "lost")
        end
    end,
}
