-- The judge of chaos runs, on histories written by hand: a judge that never finds anything
-- proves nothing.
local history = require "spec.chaos.history"
local picture = require "spec.chaos.picture"

-- Marks of one hold, by client c: asked at a, got at b, valid for left ms, left at exit.
local function hold(c, a, b, left, exit, more)
    more = more or {}
    local n = more.n or 1
    local list = {
        { k = "call", c = c, s = 1, l = "x", n = n, a = a, wait = 1, lease = 0.5,
            r = more.r, how = more.how },
        { k = "got", c = c, s = 1, l = "x", n = n, a = a, b = b, at = b,
            by = more.by or b, left = left, wait = 1, lease = 500, token = more.token,
            how = more.how, place = more.place },
    }
    if exit then
        list[3] = { k = "exit", c = c, s = 1, l = "x", n = n, a = exit }
        list[4] = { k = "released", c = c, s = 1, l = "x", n = n, a = exit, b = exit + 1,
            ok = more.ok ~= false }
    end
    return list
end

local function process(c)
    return {
        { k = "began", c = c, a = 0, fds = 10, rss = 5000, lua = 300 },
        { k = "settled", c = c, a = 9000, fds = 12, rss = 6000, lua = 320 },
    }
end

local function join(...)
    local all = {}
    for _, list in ipairs { process "1", process "2", ... } do
        for _, m in ipairs(list) do
            all[#all + 1] = m
        end
    end
    return all
end

local function violations(opts, ...)
    local texts = {}
    for i, v in ipairs(history.check(join(...), opts).violations) do
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

local function of_1(kind, fields)
    fields.k, fields.c, fields.s, fields.l, fields.n = kind, "1", 1, "x", 1
    return { fields }
end

describe("a history", function()
    it("of one after the other is fine", function()
        finds_nothing(hold("1", 0, 10, 480, 100), hold("2", 20, 101, 480, 200))
    end)

    it("of two at once is not", function()
        finds("client 2.1 has .x. while it is client 1.1.s for 50.0 ms more, by its validity "
            .. "%(for 40.0",
            hold("1", 0, 10, 480, 100), hold("2", 20, 50, 480, 200))
        finds("while it is client 1.1's", hold("1", 0, 10, 480), hold("2", 20, 470, 480, 500))
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

    it("tells of one inside another that lasts longer", function()
        assert.equal(2, #violations(nil, hold("1", 0, 10, 480, 480),
            hold("2", 20, 50, 480, 60), hold("2", 90, 100, 480, 110, { n = 2 })))
    end)

    it("of a holder who stays on after its validity is fine: that is its own fault", function()
        finds_nothing(hold("1", 0, 10, 480), hold("2", 20, 495, 480, 600))
        local v = history.check(join(hold("1", 0, 10, 480, 700, { ok = false }),
            hold("2", 20, 495, 480, 600)))
        assert.equal(1, v.intrusions.x)          -- but a resource would have noticed
    end)

    it("of one who was stopped until his time was over is fine, inside another's", function()
        finds_nothing(hold("1", 0, 600, 0, 601, { ok = false }), hold("2", 20, 550, 480, 700))
    end)

    it("counts renewals", function()
        finds("while it is client 1.1's", hold("1", 0, 10, 480),
            of_1("valid", { at = 300, by = 300, left = 480 }), hold("2", 20, 500, 480, 600))
        finds_nothing(hold("1", 0, 10, 480), of_1("valid", { at = 300, by = 300, left = 480 }),
            hold("2", 20, 780, 480, 790))
    end)

    it("ends with its process", function()
        finds_nothing(hold("1", 0, 10, 480), { { k = "died", c = "1", a = 100 } },
            hold("2", 20, 101, 480, 200))
        finds("while it is client 1.1's", hold("1", 0, 10, 480),
            { { k = "died", c = "1", a = 100 } }, hold("2", 20, 99, 480, 200))
    end)

    it("ends earlier for a process that was suspended", function()
        local function suspended(ms)
            return { { k = "suspended", c = "1", a = 100, by = ms } }
        end
        finds_nothing(hold("1", 0, 10, 481), suspended(1000), hold("2", 20, 101, 480, 120))
        finds_nothing(hold("1", 0, 10, 481), suspended(300), hold("2", 20, 191, 480, 195))
        finds("while it is client 1.1's", hold("1", 0, 10, 481), suspended(300),
            hold("2", 20, 185, 480, 190))
        finds("while it is client 1.1's", hold("1", 0, 10, 481), suspended(1000),
            hold("2", 20, 95, 480, 99))
    end)

    it("entitles nobody by a call without an answer", function()
        local asked = hold("1", 0, 10, 480)
        table.remove(asked, 2)
        finds_nothing(asked, { { k = "died", c = "1", a = 100 } }, hold("2", 5, 20, 480, 90))
    end)

    it("is only counted where nobody claims exclusion", function()
        local marks = join(hold("1", 0, 10, 480, 100), hold("2", 20, 50, 480, 200))
        local v = history.check(marks, { claim = false })
        assert.same({}, v.violations)
        assert.equal(1, v.overlaps)
    end)
end)

describe("the line of a fair lock", function()
    -- Client 1 stands in it: each attempt is { when it was refused, by whom }.
    local function waits(attempts, got)
        local marks = hold("1", 0, got, 480, got + 5, { how = "fair" })
        for i, attempt in ipairs(attempts) do
            table.insert(marks, { k = "stands", c = "1", s = 1, l = "x", n = 1,
                a = i > 1 and attempts[i - 1][1] or 5, b = attempt[1], servers = attempt[2],
                no = attempt.no or #attempt[2], try = attempt.try or i + 1 })
        end
        return marks
    end

    local function comes(a, b, how)
        return hold("2", a, b, 480, b + 5, { how = how or "fair" })
    end

    local function shaken(server, a, b)
        return { { k = "shaken", server = server, a = a, b = b or a } }
    end

    local first, others, early = { 10, { 1, 2, 3 } }, { 200, { 2, 3, 4 } }, { 400, { 1, 2, 5 } }
    local late = { 600, { 1, 4, 5 } }
    local line = waits({ first, others, early, late }, 700)
    local BEFORE = "client 2.1 has 'x' before client 1.1, who stood in line for it when that came"

    it("is served in the order of calls that do not overlap", function()
        finds(BEFORE, line, comes(20, 300))
        finds(BEFORE, line, comes(11, 400))
        finds_nothing(line, comes(20, 800))
        finds_nothing(line, comes(9, 300))       -- came before that stood in line
        local v = history.check(join(line, comes(20, 800)))
        assert.equal(1, v.counts.behind)         -- and was seen to be behind it
    end)

    it("is of no interest to other locks of the name", function()
        for _, how in ipairs { "write", "token write" } do
            finds_nothing(line, comes(20, 300, how))
        end
        finds_nothing(line, hold("2", 20, 300, 480, 305))
    end)

    it("is where a majority has entered somebody", function()
        finds_nothing(waits({ { 10, { 1, 2 } }, others, early, late }, 700), comes(20, 300))
    end)

    it("is kept by the same majority all the time", function()
        local one, two = { 10, { 1, 2, 3 } }, { 20, { 3, 4, 5 } }
        finds_nothing(waits({ one, two, { 650, { 3, 4, 5 } } }, 700), comes(15, 640))
        finds(BEFORE, waits({ one, two, { 650, { 3, 4, 5 } } }, 700), comes(21, 605))
    end)

    it("forgets who does not come again in time", function()
        local stopped = { first, { 900, { 1, 2, 3 } } }
        finds(BEFORE, waits(stopped, 950), comes(20, 604))
        finds_nothing(waits(stopped, 950), comes(20, 606))
    end)

    it("is lost where a server forgets, or its clock is stepped, until that knows it again",
        function()
            finds_nothing(line, shaken(1, 100), comes(20, 300))
            finds_nothing(line, shaken(1, 15, 18), comes(20, 300))
            finds(BEFORE, line, shaken(4, 100), comes(20, 300))
            finds(BEFORE, line, shaken(1, 310), comes(20, 300))
            finds(BEFORE, line, shaken(1, 100), comes(450, 590))
            finds_nothing(line, shaken(1, 300), shaken(2, 350), shaken(3, 350),
                comes(450, 590))
        end)

    it("is left with a lock that a majority may have given", function()
        local function second(attempt)
            return waits({ first, attempt, early }, 700)
        end
        finds_nothing(second { 200, { 2, 3 } }, comes(20, 300))
        finds(BEFORE, second { 200, { 2, 3 }, no = 3 }, comes(20, 300))
        finds(BEFORE, second { 200, { 1, 2, 3 } }, comes(20, 300))
        finds_nothing(second { 200, { 1, 2, 3 }, try = 4 }, comes(20, 190))
    end)

    it("is not judged where nobody promises anything", function()
        assert.same({}, violations({ order = false }, line, comes(20, 300)))
    end)
end)

describe("tokens", function()
    it("grow with every hold", function()
        finds_nothing(hold("1", 0, 10, 480, 100, { token = 7 }),
            hold("2", 105, 110, 480, 200, { token = 8 }))
        finds("client 2.1 got token 6, asked for after client 1.1 had got 7",
            hold("1", 0, 10, 480, 100, { token = 7 }),
            hold("2", 105, 110, 480, 200, { token = 6 }))
    end)

    it("may come in any order to those who asked at the same time, where nobody claims "
        .. "exclusion", function()
        assert.same({}, violations({ claim = false }, hold("1", 0, 10, 5, 11, { token = 7 }),
            hold("2", 5, 20, 480, 200, { token = 6 })))
    end)

    it("are unique", function()
        finds("the same token 7", hold("1", 0, 10, 5, 11, { token = 7 }),
            hold("2", 5, 20, 480, 200, { token = 7 }))
    end)

    it("are judged whatever the faults were", function()
        local same = { hold("1", 0, 10, 5, 11, { token = 7 }),
            hold("2", 5, 20, 480, 200, { token = 7 }) }
        assert.equal(1, #violations({ claim = false }, unpack(same)))
        assert.same({}, violations({ claim = false, tokens = false }, unpack(same)))
    end)

    it("grow in order of entry, for those who are valid then", function()
        local first = hold("1", 0, 30, 480, 40, { token = 7 })
        finds("client 2.1 came in with token 6 after client 1.1 with 7", first,
            hold("2", 5, 50, 480, 200, { token = 6 }))
        finds_nothing(first, hold("2", 5, 505, 0, 506, { token = 6 }))
    end)
end)

describe("a resource that looks at tokens", function()
    local holds = { hold("1", 0, 10, 480, 480, { token = 7 }),
        hold("2", 500, 510, 480, 600, { token = 8 }) }

    local function visit(c, k, a, token, value, highest)
        return { { k = k, c = c, s = 1, l = "x", n = 1, a = a, b = a + 1, token = token,
            value = value, highest = highest } }
    end

    it("is written in the order of tokens", function()
        finds_nothing(holds[1], holds[2], visit("1", "accepted", 20, 7, 1),
            visit("2", "accepted", 520, 8, 2))
        finds("client 1.1 wrote with token 7 after client 2.1 with 8", holds[1], holds[2],
            visit("2", "accepted", 520, 8, 1), visit("1", "accepted", 530, 7, 2))
    end)

    it("loses no update, whoever comes late", function()
        finds("an update is lost", holds[1], holds[2], visit("1", "accepted", 530, 7, 5),
            visit("2", "accepted", 520, 8, 5))
    end)

    it("refuses those whose time is over, for the sake of larger tokens", function()
        finds_nothing(holds[1], holds[2], visit("1", "refused", 530, 7, 2, 8))
        finds("refused token 7, having seen 7", holds[1], holds[2],
            visit("1", "refused", 530, 7, 2, 7))
        finds("client 1.1: refused with token 7, for 459.0 ms more valid", holds[1], holds[2],
            visit("1", "refused", 20, 7, 2, 8))
    end)
end)

describe("what the library says", function()
    it("is no more validity than the lease less the allowance for clocks", function()
        finds_nothing(hold("1", 0, 10, 493, 100))
        finds("495.0 ms of validity", hold("1", 0, 10, 495, 100))
    end)

    it("is never success without validity, unless the process did not run", function()
        finds("without any validity", hold("1", 0, 10, 0))
        finds_nothing(hold("1", 0, 600, 0))
    end)

    it("is the loss, at the first look at a lease that is over", function()
        local over = of_1("valid", { at = 520, by = 520, left = 0 })
        finds("not told of the loss", hold("1", 0, 10, 480), over)
        finds("not told of the loss", hold("1", 0, 10, 480), over,
            of_1("lost", { a = 2520, why = "expired" }))
        finds_nothing(hold("1", 0, 10, 480), over, { { k = "stopped", c = "1", a = 521 },
            { k = "continued", c = "1", a = 2000 } }, of_1("lost", { a = 2520, why = "expired" }))
        local told = of_1("lost", { a = 519, why = "expired" })
        finds_nothing(hold("1", 0, 10, 480), told, over)
        finds("twice", hold("1", 0, 10, 480), told, of_1("lost", { a = 521, why = "expired" }),
            over)
    end)

    it("is not the end before the end", function()
        finds("100.0 ms before it did", hold("1", 0, 10, 481),
            of_1("lost", { a = 390, why = "expired" }))
        finds_nothing(hold("1", 0, 10, 481), of_1("lost", { a = 390, why = "taken" }))
        finds_nothing(hold("1", 0, 10, 481), of_1("lost", { a = 390, why = "expired" }),
            { { k = "suspended", c = "1", a = 380, by = 50 } })
    end)

    it("is final about a loss", function()
        finds("valid again", hold("1", 0, 10, 481), of_1("lost", { a = 390, why = "taken" }),
            of_1("valid", { at = 391, by = 391, left = 99 }))
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
    local function fail(b)
        return of_1("fail", { a = 0, b = b, wait = 1, code = "held" })
    end

    it("returns in time, not counting the time its process was stopped", function()
        finds_nothing(fail(2500))
        finds("acquire took 5000 ms, 2250 were allowed", fail(5000))
        finds_nothing(fail(5000), { { k = "stopped", c = "1", a = 500 },
            { k = "continued", c = "1", a = 2500 } })
        finds("release took", of_1("released", { a = 0, b = 3000, ok = true }))
    end)
end)

describe("everybody who asks", function()
    local function call(c, r)
        return { { k = "call", c = c, s = 1, l = "x", n = 1, a = 10, wait = 1, r = r } }
    end
    local died = { { k = "died", c = "9#7", a = 100 } }
    local broken = { { k = "broken", c = "9", s = 1, r = 4, a = 5, b = 101 } }

    it("is answered, unless his process has died", function()
        finds("client 9#7.1: was never answered", call("9#7", 4))
        finds_nothing(call("9#7", 4), died)
        finds_nothing(call("9#7", 4), of_1("fail", { a = 10, b = 20 }), hold("9#7", 10, 20, 480))
    end)

    it("keeps his connection, unless the process that serves it has died", function()
        finds_nothing(call("9#7", 4), died, broken)
        finds_nothing(broken)                    -- nobody had begun to serve it
        finds_nothing(call("9#7", 5), died, broken)
        finds("client 9#7.1: its request was dropped", broken,
            hold("9#7", 10, 20, 480, 90, { r = 4 }))
    end)
end)

describe("what a client saw itself", function()
    it("is reported", function()
        finds("1: odd", of_1("bad", { a = 3, text = "odd" }))
    end)
end)

describe("a process", function()
    local function grown(what)
        local marks = process "3"
        marks[2][what] = marks[1][what] + 100000
        return marks
    end

    it("stays as it was", function()
        finds_nothing(process "3")
        finds("descriptors", grown "fds")
        finds("KiB resident", grown "rss")
        finds("KiB of Lua", grown "lua")
    end)

    it("settles, or has died", function()
        finds("client 3 never settled", { process("3")[1] })
        finds_nothing({ process("3")[1] }, { { k = "died", c = "3", a = 100 } })
    end)
end)

describe("the picture of a history", function()
    it("shows holds, deaths and violations", function()
        local marks = join(hold("1", 100, 110, 480, 200, { token = 9 }), hold("2", 110, 300, 480),
            { { k = "died", c = "2", a = 400 }, { k = "refused", c = "1", s = 1, l = "x", n = 1,
                a = 248, b = 250, token = 9, highest = 10 } })
        local events = picture.events(marks, { t0 = 100, slots = { 1, 4 }, story = {
            { t = 150, lane = "server 1", kind = "down", text = "kill -9" } },
            violations = { { t = 300, lock = "x", text = "oh" } } })
        local seen = {}
        for i, e in ipairs(events) do
            seen[i] = ("%g %s %s%s"):format(e.t, e.lane, e.kind,
                e["until"] and (" until %g"):format(e["until"]) or "")
        end
        assert.same({
            "0 client 1 waiting", "10 client 1 holding until 490", "10 resource x enter",
            "10 client 2.1 waiting",
            "100 resource x exit", "101 client 1 released",
            "150 resource x note",
            "200 client 2.1 holding until 680", "200 resource x enter",
            "300 client 2.1 idle", "300 resource x exit",
            "50 server 1 down", "200 resource x violation",
        }, seen)
        assert.equal(9, events[3].token)
    end)
end)
