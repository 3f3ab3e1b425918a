-- The judge of chaos runs, on histories written by hand: a judge that never finds anything
-- proves nothing. The libraries of chaos_spec that are wrong in one place show that it finds
-- readers beside writers, permits and tokens that come twice, and late writes.
local history = require "spec.chaos.history"

-- A mark of the one hold of client c.
local function mark(c, k, fields)
    fields.k, fields.c, fields.s, fields.l, fields.n = k, c, 1, "x", fields.n or 1
    return fields
end

local function of_1(k, fields)
    return { mark("1", k, fields) }
end

-- Marks of one hold, by client c: asked at a, got at b, valid for left ms, left at exit.
local function hold(c, a, b, left, exit, more)
    more = more or {}
    local n = more.n
    local list = {
        mark(c, "call", { n = n, a = a, wait = 1, lease = 0.5, r = more.r }),
        mark(c, "got", { n = n, a = a, b = b, at = b, by = more.by or b, left = left, wait = 1,
            lease = 500 }),
    }
    if exit then
        list[3] = mark(c, "exit", { n = n, a = exit })
        list[4] = mark(c, "released", { n = n, a = exit, b = exit + 1, ok = more.ok ~= false })
    end
    return list
end

local function process(c)
    return {
        { k = "began", c = c, a = 0, fds = 10, rss = 5000, lua = 300 },
        { k = "settled", c = c, a = 9000, fds = 12, rss = 6000, lua = 320 },
    }
end

local function stopped(from, to)
    return { { k = "stopped", c = "1", a = from }, { k = "continued", c = "1", a = to } }
end

local function check(...)
    local all = {}
    for _, list in ipairs { process "1", process "2", ... } do
        for _, m in ipairs(list) do
            all[#all + 1] = m
        end
    end
    return history.check(all)
end

local function violations(...)
    local texts = {}
    for i, v in ipairs(check(...).violations) do
        texts[i] = v.text
    end
    return texts
end

local function finds(pattern, ...)
    local texts = violations(...)
    assert.equal(1, #texts, table.concat(texts, "\n"))
    assert.matches(pattern, texts[1])
end

local function finds_nothing(...)
    assert.same({}, violations(...))
end

local TWO = "while it is client 1.1's"

describe("a history", function()
    it("of one after the other is fine, of two at once is not", function()
        finds_nothing(hold("1", 0, 10, 480, 100), hold("2", 20, 101, 480, 200))
        finds("client 2.1 has .x. while it is client 1.1.s for 50.0 ms more, by its validity "
            .. "%(for 40.0", hold("1", 0, 10, 480, 100), hold("2", 20, 50, 480, 200))
        finds(TWO, hold("1", 0, 10, 480), hold("2", 20, 470, 480, 500))
        -- One inside another that lasts longer.
        assert.equal(2, #violations(hold("1", 0, 10, 480, 480),
            hold("2", 20, 50, 480, 60), hold("2", 90, 100, 480, 110, { n = 2 })))
    end)

    it("of a holder that stays on after its validity is fine: that is its own fault", function()
        finds_nothing(hold("1", 0, 10, 480), hold("2", 20, 495, 480, 600))
        local v = check(hold("1", 0, 10, 480, 700, { ok = false }),
            hold("2", 20, 495, 480, 600))
        assert.equal(1, v.intrusions.x)          -- but a resource would have noticed
        -- Stopped until its time was over, inside another's.
        finds_nothing(hold("1", 0, 600, 0, 601, { ok = false }), hold("2", 20, 550, 480, 700))
    end)

    it("counts renewals", function()
        local renewed = of_1("valid", { at = 300, by = 300, left = 480 })
        finds(TWO, hold("1", 0, 10, 480), renewed, hold("2", 20, 500, 480, 600))
        finds_nothing(hold("1", 0, 10, 480), renewed, hold("2", 20, 780, 480, 790))
    end)

    it("ends with its process, and earlier for one that was suspended", function()
        local died = { { k = "died", c = "1", a = 100 } }
        finds_nothing(hold("1", 0, 10, 480), died, hold("2", 20, 101, 480, 200))
        finds(TWO, hold("1", 0, 10, 480), died, hold("2", 20, 99, 480, 200))
        local function suspended(ms)
            return { { k = "suspended", c = "1", a = 100, by = ms } }
        end
        finds_nothing(hold("1", 0, 10, 481), suspended(1000), hold("2", 20, 101, 480, 120))
        finds_nothing(hold("1", 0, 10, 481), suspended(300), hold("2", 20, 191, 480, 195))
        finds(TWO, hold("1", 0, 10, 481), suspended(300), hold("2", 20, 185, 480, 190))
        finds(TWO, hold("1", 0, 10, 481), suspended(1000), hold("2", 20, 95, 480, 99))
        local asked = { hold("1", 0, 10, 480)[1] }       -- a call without an answer
        finds_nothing(asked, died, hold("2", 5, 20, 480, 90))
    end)

end)

describe("what the library says", function()
    it("is the loss, once, at the first look at a lease that is over", function()
        local held = hold("1", 0, 10, 480)
        local over = of_1("valid", { at = 520, by = 520, left = 0 })
        local late = of_1("lost", { a = 2520, why = "expired" })
        finds("not told of the loss", held, over)
        finds("not told of the loss", held, over, late)
        finds_nothing(held, over, stopped(521, 2000), late)
        local told = of_1("lost", { a = 519, why = "expired" })
        finds_nothing(held, told, over)
        finds("twice", held, told, of_1("lost", { a = 521, why = "expired" }), over)
    end)

    it("is not the end before the end, and final about a loss", function()
        local held = hold("1", 0, 10, 481)
        local expired = of_1("lost", { a = 390, why = "expired" })
        local taken = of_1("lost", { a = 390, why = "taken" })
        finds("100.0 ms before it did", held, expired)
        finds_nothing(held, taken)
        finds_nothing(held, expired, { { k = "suspended", c = "1", a = 380, by = 50 } })
        finds("valid again", held, taken, of_1("valid", { at = 391, by = 391, left = 99 }))
    end)

    it("is not that a release after the end was in time", function()
        finds("released in time, it says", hold("1", 0, 10, 480, 492))
        finds_nothing(hold("1", 0, 10, 480, 492, { by = 12 }))
        finds_nothing(hold("1", 0, 10, 480, 600, { ok = false }))
        finds_nothing(hold("1", 0, 10, 480), of_1("extended", { a = 480, b = 485, ok = true }),
            of_1("released", { a = 600, b = 601, ok = true }))
        finds("what was lost before", hold("1", 0, 10, 480, 100),
            of_1("lost", { a = 90, why = "taken" }))
    end)
end)

describe("a call", function()
    it("returns in time, not counting the time its process was stopped", function()
        local function fail(b)
            return of_1("fail", { a = 0, b = b, wait = 1, code = "held" })
        end
        finds_nothing(fail(2500))
        finds("acquire took 5000 ms, 2250 were allowed", fail(5000))
        finds_nothing(fail(5000), stopped(500, 2500))
        finds("release took", of_1("released", { a = 0, b = 3000, ok = true }))
    end)

    it("is answered, and its connection kept, unless the process has died", function()
        local function call(r)
            return { mark("9#7", "call", { a = 10, wait = 1, r = r }) }
        end
        local died = { { k = "died", c = "9#7", a = 100 } }
        local broken = { { k = "broken", c = "9", s = 1, r = 4, a = 5, b = 101 } }
        finds("client 9#7.1: was never answered", call(4))
        finds_nothing(call(4), died)
        finds_nothing(call(4), of_1("fail", { a = 10, b = 20 }), hold("9#7", 10, 20, 480))
        finds_nothing(call(4), died, broken)
        finds_nothing(broken)                    -- nobody had begun to serve it
        finds_nothing(call(5), died, broken)
        finds("client 9#7.1: its request was dropped", broken,
            hold("9#7", 10, 20, 480, 90, { r = 4 }))
    end)
end)

describe("a process", function()
    it("stays as it was, and settles, or has died", function()
        for what, complaint in pairs { fds = "descriptors", rss = "KiB resident",
            lua = "KiB of Lua" } do
            local marks = process "3"
            finds_nothing(marks)
            marks[2][what] = marks[1][what] + 100000
            finds(complaint, marks)
        end
        local began = { process("3")[1] }
        finds("client 3 never settled", began)
        finds_nothing(began, { { k = "died", c = "3", a = 100 } })
    end)

    it("reports what it saw itself", function()
        finds("1: odd", of_1("bad", { a = 3, text = "odd" }))
    end)
end)
