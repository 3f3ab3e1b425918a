-- Sequencers: a hold as a printable string, and whether it is still current.
local support = require "spec.support"

local FENCE = "redlock:{x}:fence"

local function take(l, lease)
    local ok, token = l:tryLock(5, lease or 10)
    assert.is_true(ok, tostring(token))
    return token
end

describe("a sequencer", function()
    local cluster, client

    before_each(function()
        cluster = support.cluster(3)
        client = support.warm_client(cluster)
    end)
    after_each(function()
        client:close()
        cluster:stop()
    end)

    it("is current as long as the hold is", function()
        for _, name in ipairs { "x", "a b;c%\0\n", ("long"):rep(1000) } do
            local l = client:getFencedLock(name)
            local token = take(l)
            local text = l:sequencer()
            assert.is_nil(text:find "[^%w._:/%%;-]")
            assert.truthy(text:find((";%.0f;"):format(token)))
            local other = support.warm_client(cluster)
            support.eventually(function() return other:checkSequencer(text) end)
            assert.is_true(l:unlock())
            assert.is_false(other:checkSequencer(text))
            take(l)
            assert.is_false(other:checkSequencer(text))
            assert.is_true(l:unlock())
            other:close()
        end
    end)

    it("is refused by name when another version made it", function()
        local l = client:getFencedLock "x"
        take(l)
        local text = l:sequencer()
        for _, made in ipairs { (text:gsub("^fence", "fence2")), "fence12;whatever" } do
            local err = support.fails("config", client:checkSequencer(made))
            assert.matches("a sequencer of another version", err.message, 1, true)
        end
        assert.is_true(client:checkSequencer(text))
        assert.is_true(l:unlock())
    end)

    -- A fenced hold that has ended, as a sequencer.
    local function ended(name)
        local l = client:getFencedLock(name)
        take(l)
        local text = l:sequencer()
        assert.is_true(l:unlock())
        return text
    end

    it("is over with its hold, whatever has the name then", function()
        local text = ended "x"
        local plain = client:getLock "x"
        assert.is_true(plain:tryLock(5))
        assert.is_false(client:checkSequencer(text))
        assert.is_true(plain:unlock())
        cluster:each(function(s) s:call("SET", "x", "another library's", "PX", 20000) end)
        assert.is_false(client:checkSequencer(text))
        cluster:each(function(s) s:call("DEL", "x") end)
        cluster:each(function(s) s:call("HSET", "x", "a", "hash") end)
        assert.is_false(client:checkSequencer(text))
        cluster:each(function(s) s:call("DEL", "x") end)
    end)

    it("is over when the hold's time is, and a plain lock has the name", function()
        local l = client:getFencedLock "x"
        take(l, 2)
        local text = l:sequencer()
        assert.is_true(client:getLock("x", { owner = 2 }):tryLock(5, 10))
        assert.is_false(client:checkSequencer(text))
        assert.is_true(client:getLock("x", { owner = 2 }):unlock())
    end)

    it("is current on servers that were healed, or lost a counter", function()
        local l = client:getFencedLock "x"
        take(l)
        client:check()                           -- all have it
        local text = l:sequencer()
        cluster[2]:call("DEL", "x")
        support.eventually(function()
            assert.is_true((l:extend()))         -- a busy server may have missed it
            return cluster[2]:call("EXISTS", "x") == 1
        end)
        cluster[1]:call("DEL", FENCE)            -- its floor is above the token
        cluster[3]:freeze()
        local ok, err = client:checkSequencer(text)      -- one of two who answer says so
        cluster[3]:thaw()
        assert.is_nil(ok)
        assert.equal("no_quorum", err.code)
        support.eventually(function() return client:checkSequencer(text) end)
        assert.is_true(l:unlock())
    end)

    it("goes on with a hold that another process took over", function()
        local l = client:getFencedLock "x"
        take(l)
        local text = l:sequencer()
        local other = support.warm_client(cluster)
        local taken = assert(other:import(l:export()))
        assert.is_true(client:checkSequencer(text))
        assert.equal(text, taken:sequencer())
        assert.is_true(taken:unlock())
        assert.is_false(client:checkSequencer(text))
        other:close()
    end)

    -- As a failover to an older replica leaves it: the keys are there, and another memory votes.
    it("is of no memory that is over", function()
        local l = client:getFencedLock "x"
        take(l)
        local text = l:sequencer()
        support.eventually(function() return client:checkSequencer(text) end)
        for i = 1, 2 do
            local marker = cluster[i]:call("GET", "redlock:{server}:marker")
            marker = marker:gsub("^%x+ v4 a", ("0"):rep(16) .. " v4 a")
            assert(cluster[i]:call("SET", "redlock:{server}:marker", marker))
        end
        assert.is_false(client:checkSequencer(text))
    end)

    it("is refused when somebody mistyped it", function()
        local l = client:getFencedLock "x"
        take(l)
        local text = l:sequencer()
        assert.is_true(l:unlock())
        for i = 1, #text do
            local c = text:sub(i, i)
            local wrong = text:sub(1, i - 1) .. (c == "7" and "8" or "7") .. text:sub(i + 1)
            support.fails("config", client:checkSequencer(wrong))
        end
        assert.has_error(function() client:checkSequencer(5) end)
    end)
end)
