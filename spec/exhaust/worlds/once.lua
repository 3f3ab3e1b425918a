--- A and B run a job once in a period; A may stand still. Nobody runs it twice in one.

local PERIOD = 3

return {
    in_trouble = "A",
    pauses = true,
    limits = { odd = 2, path = 1, start = 1, fault = 0, client = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", settle = "path" },
    run = function(s, kind)
        local last
        local function job(who, client)
            local ok, err = client:once("x", PERIOD, function()
                s:log("%s runs it", who)
                local now = s.world:now()
                if last and now < last + PERIOD * 0.98 then
                    s:wrong("%s runs it %.3f s after another one", who, now - last)
                end
                last = now
            end, { before = kind.before, fenced = kind.tokens, owner = {} })
            s:log("%s: %s", who, ok or err)
        end
        s:play(function()
            s:start()
            job("A", s.a)
        end, function()
            for _ = 1, 4 do
                job("B", s.b)
                s:rest("B", 0.5)
            end
        end, s.lease + 4, 0)
    end,
}
