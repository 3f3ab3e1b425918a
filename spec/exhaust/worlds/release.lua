--- A holds and releases; B asks, and waits. One holder; B is served; nothing is left.

local stage = require "spec.exhaust.stage"

return {
    odd = 3,
    limits = { path = 2, start = 1, fault = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", release = "path" },
    run = function(s, kind)
        local served
        s:play(function()
            s:hold("A", kind.a(s.a), 0, kind, 0.5, function() s:start() end)
        end, function()
            served = s:hold("B", kind.b(s.b), 30, kind, 0.1)
        end, stage.LEASE + 0.5, 30)
        if not served then
            s:wrong("B is not served")
        end
        s:nothing_left()
    end,
}
