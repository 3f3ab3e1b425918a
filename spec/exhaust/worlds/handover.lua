--- A exports its hold, and has it no more; B and C import it at once, and C once more when B has
-- released. At most one import succeeds.

return {
    limits = { odd = 2, path = 2, start = 1, fault = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", import = "path", export = "path",
        release = "path", heal = "path" },
    run = function(s, kind)
        local c, transfer, owner = s.world:client(), nil, nil
        local function import(who, client)
            local lock, err = client:import(transfer, { owner = {} })
            if not lock then
                s:log("%s imports nothing: %s", who, err)
                return
            end
            if owner then
                s:wrong("%s imports what %s has imported", who, owner)
            end
            owner = who
            local hold = s:got(who, lock)
            s.world:advance(0.5)
            s:gone(hold)
            lock:unlock()
        end
        s:name(c, "C")
        s:play(function()
            s:start()
            local a = kind.a(s.a)
            if a:tryLock(0, s.lease) then
                transfer = a:export()
                if transfer and a:remaining() > 0 then
                    s:wrong("A holds what it has exported")
                end
                s:moment(nil, "after the export")
            end
        end, function()
            if transfer then
                s.world:spawn(import, "C", c)
                import("B", s.b)
                import("C", c)
            end
        end, s.lease + 0.5, 5)
    end,
}
