-- client:locks finds all names that were held all the time, whatever servers and tables do.
local question = require "redlock.runtime.question"
local support = require "spec.support"

local VALUE = ("%x"):rep(40):gsub("%%x", "a") .. " 19ab0000000 web-1"

-- So many names on a server, with one value each.
local FILL = [[
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
    if ARGV[3] == '' or (i + ARGV[3]) % 5 < 3 then
        redis.call('set', 'name:' .. i, string.format('%040x', i) .. string.sub(ARGV[4], 41), 'px',
            600000)
    end
end]]
local JUNK = "for i = ARGV[1], ARGV[2] do redis.call('set', 'junk:' .. i, '') end"
local SWEEP = "for i = ARGV[1], ARGV[2] do redis.call('del', 'junk:' .. i) end"

describe("the list of locks is whole", function()
    local cluster, client, ask

    local function begin(n, opts, timeout)
        cluster = support.cluster(n, opts)
        client = support.warm_client(cluster, { timeout = timeout or 5 })
    end

    before_each(function() ask = question.ask_each end)
    after_each(function()
        question.ask_each = ask
        client:close()
    end)

    -- Names from 1 to n; on three servers of five each, when there are five.
    local function fill(n)
        cluster:each(function(s, k)
            for from = 1, n, 5000 do
                s:call("EVAL", FILL, 0, from, math.min(from + 4999, n), cluster[5] and k or "",
                    VALUE)
            end
        end)
    end

    -- fn(page, said) happens behind each page; said: by place what those servers have said, or nil.
    local function behind_pages(fn)
        local page = 0
        question.ask_each = function(c, asked)
            local said = ask(c, asked)
            if asked[1].body:find("'scan'", 1, true) then
                page = page + 1
                local by_place = {}
                for k, one in ipairs(asked) do
                    by_place[one.place] = said[k]
                end
                fn(page, by_place)
            end
            return said
        end
        return function() return page end
    end

    local function all(n)
        local seen, count = {}, 0
        local list = assert(client:locks(nil, { rate = 1e9 }))
        for _, row in ipairs(list) do
            assert.is_nil(seen[row.name], row.name)
            seen[row.name], count = row, count + 1
        end
        for i = 1, n do
            local row = assert(seen["name:" .. i], "name:" .. i)
            assert.equal("web-1", row.holder.label)
        end
        assert.equal(n, count)
    end

    it("while tables grow and shrink", function()
        begin(5)
        fill(10000)
        local pages = behind_pages(function(page)
            local k = page % 5 + 1
            if page < 12 then
                cluster[k]:call("EVAL", JUNK, 0, page * 20000, page * 20000 + 19999)
            elseif page < 24 then
                cluster[k]:call("EVAL", SWEEP, 0, (page - 12) * 20000, (page - 12) * 20000 + 19999)
            end
        end)
        all(10000)
        assert.is_true(pages() > 24, pages())
    end)

    it("with a server frozen from the beginning, and one that freezes", function()
        begin(5, nil, 0.25)
        fill(2000)
        -- Those that are on two other servers and on the one that does not answer have no majority
        -- that says so; the others are all there.
        local function but(k)
            local n, seen = 0, {}
            for _, row in ipairs(assert(client:locks())) do
                seen[row.name] = true
            end
            for i = 1, 2000 do
                local there = (i + k) % 5 >= 3
                assert.equal(there, seen["name:" .. i] ~= nil, i)
                n = n + (there and 1 or 0)
            end
            assert.equal(800, n)
        end
        cluster[1]:freeze()
        but(1)
        cluster[1]:thaw()
        support.eventually(function()
            client:connect(1)
            return #assert(client:locks()) == 2000
        end, 20)
        behind_pages(function(page)
            if page == 3 then
                cluster[2]:freeze()
            end
        end)
        but(2)
        cluster[2]:thaw()
    end)

    it("with a server that dies, and comes again with its keys in another order", function()
        begin(1, { args = { "--appendonly", "yes" } })
        fill(3000)
        behind_pages(function(page)
            if page == 3 then
                cluster[1]:restart()
            end
        end)
        all(3000)
    end)

    it("with connections that break", function()
        begin(3)
        fill(3000)
        behind_pages(function(page)
            if page == 3 or page == 5 then
                cluster[page - 2]:call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            end
        end)
        all(3000)
    end)

    it("with a server that hides names, names others, and never ends", function()
        begin(5)
        cluster:each(function(s, k)
            s:call("EVAL", FILL, 0, 1, 1000, "", VALUE)
            if k == 2 then                       -- it has other names, and none of these
                s:call "FLUSHALL"
                s:call("SET", "name:forged", ("f"):rep(40) .. " 19ab0000000 mallory", "PX", 60000)
                s:call("SET", "name:1", ("f"):rep(40) .. " 19ab0000000 mallory", "PX", 60000)
            end
        end)
        all(1000)
        local n = 0
        local pages = behind_pages(function(_, said)
            if said[2] and said[2].data then
                n = n + 1
                said[2].data = n .. " 0 l 60000 9 9 9 8 26:forged:" .. n % 10 .. ("f"):rep(20)
                    .. " 19ab0"
            end
        end)
        all(1000)
        assert.is_true(n > 0 and pages() < 1000)
        for _, rubbish in ipairs { "0 0 l 60000 0 0 0 99999 99999:x", "0 0 rubbish", "x", "" } do
            question.ask_each = ask
            behind_pages(function(_, said)
                if said[2] and said[2].data then
                    said[2].data = rubbish
                end
            end)
            all(1000)
        end
        support.all(cluster, 3, 5):call "FLUSHALL"
        question.ask_each = ask
        assert.equal(0, #assert(client:locks()))
    end)

    it("with a server that hides those that two others have beside it", function()
        begin(5)
        fill(2000)
        behind_pages(function(_, said)
            if said[2] and said[2].data then
                said[2].data = "0 0 "
            end
        end)
        all(2000)
    end)

    it("or there is none", function()
        begin(3, nil, 0.25)
        fill(10)
        cluster[1]:freeze()
        cluster[2]:freeze()
        local list, err = client:locks()
        assert.is_nil(list)
        assert.equal("no_quorum", err.code)
        assert.equal("timeout", err.nodes[1].code)
        assert.equal("ok", err.nodes[3].code)
    end)

    it("or is given up in time", function()
        begin(3)
        fill(5000)
        local list, err = client:locks(nil, { rate = 1000, within = 0.1 })
        assert.is_nil(list)
        assert.equal("no_quorum", err.code)
        assert.matches("in time", err.nodes[1].message)
    end)

    it("within a budget of keys a second, and never by KEYS", function()
        begin(1)
        fill(3000)
        cluster[1]:call("CONFIG", "RESETSTAT")
        local t0 = support.now()
        assert.equal(3000, #assert(client:locks(nil, { rate = 6000 })))
        assert.is_true(support.now() - t0 > 0.3)
        local stats = cluster[1]:call("INFO", "commandstats")
        assert.is_nil(stats:find("cmdstat_keys", 1, true))
        assert.is_true(tonumber(stats:match "cmdstat_scan:calls=(%d+)") < 100)
        assert.is_true(tonumber(stats:match "cmdstat_evalsha:calls=(%d+)") < 100)
    end)

    it("in which seven keys of others cost as much as a lock", function()
        begin(1)
        cluster[1]:call("EVAL", "for i = 1, 14000 do redis.call('set', 'o:' .. i, 1) end", 0)
        local t0 = support.now()
        assert.equal(0, #assert(client:locks(nil, { rate = 2000 })))
        local seconds = support.now() - t0
        assert.is_true(seconds > 0.9 and seconds < 5, seconds .. " s")
    end)
end)
