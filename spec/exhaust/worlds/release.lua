--- A holds and releases; B asks, and waits. One holder; B is served; nothing is left.

local world = {
    limits = { odd = 2, path = 2, start = 1, fault = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", release = "path" },
    seconds = 4.5,
    more = 30,
}

function world.run(s, kind)
    local served
    s:play(function()
        s:hold("A", kind.a(s.a), 0, kind, 0.5, function() s:start() end)
    end, function()
        served = s:hold("B", kind.b(s.b), 30, kind, 0.1)
    end, s.world_of.seconds, s.world_of.more)
    if not served then
        s:wrong("B is not served")
    end
    s:nothing_left()
end

return world
