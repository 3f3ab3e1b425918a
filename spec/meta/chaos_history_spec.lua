-- The judge of chaos runs, on histories written by hand: a judge that never finds anything
-- proves nothing.
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
        mark(c, "call", { n = n, a = a, wait = 1, lease = 0.5, r = more.r, how = more.how }),
        mark(c, "got", { n = n, a = a, b = b, at = b, by = more.by or b, left = left, wait = 1,
            lease = 500, token = more.token, how = more.how, place = more.place }),
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

local function check(opts, ...)
    local all = {}
    for _, list in ipairs { process "1", process "2", ... } do
        for _, m in ipairs(list) do
            all[#all + 1] = m
        end
    end
    return history.check(all, opts)
end

local function violations(opts, ...)
    local texts = {}
    for i, v in ipairs(check(opts, ...).violations) do
        texts[i] = v.text
    end
    return texts
end

local function finds(pattern, ...)
    local texts = violations(nil, ...)
    assert.equal(1, #texts, table.concat(texts, "\n"))
    assert.matches(pattern, texts[1])
end

local function finds_nothing(...)
    assert.same({}, violations(nil, ...))
end

local TWO = "while it is client 1.1's"

describe("a history", function()
    it("of one after the other is fine, of two at once is not", function()
        finds_nothing(hold("1", 0, 10, 480, 100), hold("2", 20, 101, 480, 200))
        finds("client 2.1 has .x. while it is client 1.1.s for 50.0 ms more, by its validity "
            .. "%(for 40.0", hold("1", 0, 10, 480, 100), hold("2", 20, 50, 480, 200))
        finds(TWO, hold("1", 0, 10, 480), hold("2", 20, 470, 480, 500))
        -- One inside another that lasts longer.
        assert.equal(2, #violations(nil, hold("1", 0, 10, 480, 480),
            hold("2", 20, 50, 480, 60), hold("2", 90, 100, 480, 110, { n = 2 })))
    end)

    it("of readers side by side is fine, and not with a writer in between", function()
        local function by(c, a, b, exit, how)
            return hold(c, a, b, 480, exit, { how = how })
        end
        finds_nothing(by("1", 0, 10, 100, "read"), by("2", 20, 50, 200, "read"))
        finds_nothing(by("1", 0, 10, 40, "read"), by("2", 20, 50, 200, "write"))
        for _, how in ipairs { "write", "fair", "token write" } do
            finds("client 2.1 has .x. while", by("1", 0, 10, 100, "read"),
                by("2", 20, 50, 200, how))
            finds("client 2.1 has .x. while", by("1", 0, 10, 100, how),
                by("2", 20, 50, 200, "read"))
            finds("client 2.1 has .x. while", by("1", 0, 10, 100, how), by("2", 20, 50, 200, nil))
        end
    end)

    it("of permits has one in each slot", function()
        local function permit(c, a, b, exit, slot)
            return hold(c, a, b, 480, exit, { how = "permit", place = slot })
        end
        finds_nothing(permit("1", 0, 10, 100, 1), permit("2", 20, 50, 200, 2))
        finds("client 2.1 has .x/2. while", permit("1", 0, 10, 100, 2),
            permit("2", 20, 50, 200, 2))
    end)

    it("of a holder that stays on after its validity is fine: that is its own fault", function()
        finds_nothing(hold("1", 0, 10, 480), hold("2", 20, 495, 480, 600))
        local v = check(nil, hold("1", 0, 10, 480, 700, { ok = false }),
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

    it("is only counted where nobody claims exclusion", function()
        local v = check({ claim = false }, hold("1", 0, 10, 480, 100), hold("2", 20, 50, 480, 200))
        assert.same({}, v.violations)
        assert.equal(1, v.overlaps)
    end)
end)

describe("tokens", function()
    local function got(c, a, b, left, exit, token)
        return hold(c, a, b, left, exit, { token = token })
    end

    it("grow with every hold, and are unique", function()
        finds_nothing(got("1", 0, 10, 480, 100, 7), got("2", 105, 110, 480, 200, 8))
        finds("client 2.1 got token 6, asked for after client 1.1 had got 7",
            got("1", 0, 10, 480, 100, 7), got("2", 105, 110, 480, 200, 6))
        finds("the same token 7", got("1", 0, 10, 5, 11, 7), got("2", 5, 20, 480, 200, 7))
    end)

    it("are judged where nobody claims exclusion, but for those asked for at one time", function()
        local same = { got("1", 0, 10, 5, 11, 7), got("2", 5, 20, 480, 200, 7) }
        assert.equal(1, #violations({ claim = false }, unpack(same)))
        assert.same({}, violations({ claim = false, tokens = false }, unpack(same)))
        assert.same({}, violations({ claim = false }, got("1", 0, 10, 5, 11, 7),
            got("2", 5, 20, 480, 200, 6)))
    end)

    it("grow in order of entry, for those who are valid then", function()
        local first = got("1", 0, 30, 480, 40, 7)
        finds("client 2.1 came in with token 6 after client 1.1 with 7", first,
            got("2", 5, 50, 480, 200, 6))
        finds_nothing(first, got("2", 5, 505, 0, 506, 6))
    end)
end)

describe("a resource that looks at tokens", function()
    local first, second = hold("1", 0, 10, 480, 480, { token = 7 }),
        hold("2", 500, 510, 480, 600, { token = 8 })

    local function visit(c, k, a, token, value, highest)
        return { mark(c, k, { a = a, b = a + 1, token = token, value = value,
            highest = highest }) }
    end

    it("is written in the order of tokens, and loses no update", function()
        finds_nothing(first, second, visit("1", "accepted", 20, 7, 1),
            visit("2", "accepted", 520, 8, 2))
        finds("client 1.1 wrote with token 7 after client 2.1 with 8", first, second,
            visit("2", "accepted", 520, 8, 1), visit("1", "accepted", 530, 7, 2))
        finds("an update is lost", first, second, visit("1", "accepted", 530, 7, 5),
            visit("2", "accepted", 520, 8, 5))
    end)

    it("refuses those whose time is over, for the sake of larger tokens", function()
        finds_nothing(first, second, visit("1", "refused", 530, 7, 2, 8))
        finds("refused token 7, having seen 7", first, second,
            visit("1", "refused", 530, 7, 2, 7))
        finds("client 1.1: refused with token 7, for 459.0 ms more valid", first, second,
            visit("1", "refused", 20, 7, 2, 8))
    end)
end)

describe("what the library says", function()
    it("is some validity, and no more than the lease less the allowance for clocks", function()
        finds_nothing(hold("1", 0, 10, 493, 100))
        finds("495.0 ms of validity", hold("1", 0, 10, 495, 100))
        finds("without any validity", hold("1", 0, 10, 0))
        finds_nothing(hold("1", 0, 600, 0))      -- the process did not run
    end)

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
