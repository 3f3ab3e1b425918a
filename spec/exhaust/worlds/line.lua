--- A holds; one of C's process waits, and soon another one; three of B's wait from some moment on.
-- Nobody is served before who stood in line when it asked.

return {
    in_trouble = "C",
    limits = { odd = 1, path = 1, start = 1, fault = 0, client = 1, order = 0 },
    roles = { acquire = "path" },
    run = function(s, kind)
        local c, served = s:name(s.world:client(), "C"), 0
        -- Who stands in line on a majority.
        local function in_line()
            local one, two = {}, {}
            for _, server in ipairs(s.world.world.servers) do
                local living = server:entry "redlock:{x}:living"
                for id, ends in pairs(living and living.value.score or {}) do
                    if ends > server:clock() / 1e3 then
                        two[id] = one[id]
                        one[id] = true
                    end
                end
            end
            return two
        end
        -- A client in trouble may lose its place, so only C may be in trouble.
        local function wait(who, client)
            local before = in_line()
            s:hold(who, kind.b(client), 60, kind, 0.01, function()
                served = served + 1
                for id in pairs(who == "C" and in_line() or {}) do
                    if before[id] then
                        s:wrong("C is served before who stood in line when it asked")
                    end
                end
            end)
        end
        s:play(function()
            s.world:spawn(s.keep, s, "A", kind.a(s.a), 5)
            s:rest("A", 0.1)
            s:start()
            s.world:spawn(wait, "C", c)
            s:rest("C", 0.15)
            wait("C", c)
        end, function()
            for _ = 1, 3 do s.world:spawn(wait, "B", s.b) end
        end, 1, 60)
        if served < 5 then
            s:wrong("%d of 5 in line are served", served)
        end
    end,
}
