--- Two who ask for one name, each once. At most one holds; tokens grow.

return {
    in_trouble = "A",
    limits = { odd = 2, path = 2, start = 1, fault = 1, client = 1, order = 1 },
    roles = { acquire = "path", confirm = "path", release = "path" },
    run = function(s, kind)
        s:play(function()
            s:start()
            s:hold("A", kind.a(s.a), 0, kind, s.lease + 0.1)
        end, function()
            s:hold("B", kind.b(s.b), 0, kind, s.lease + 0.1)
        end, s.lease + 0.5, 0)
    end,
}
