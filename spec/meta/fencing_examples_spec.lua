-- The examples of fencing: each shows a late write that is refused, and what it does otherwise.
local support = require "spec.support"
local build = require "spec.support.build"

local FOLDER = build.root .. "/examples/fencing/"

local function start(path, ...)
    return support.spawn { "luajit", path, stdout = "pipe", stderr = "stdout",
        env = support.lua_env(), ... }
end

-- What the story of one resource says, in its order.
local LOCK = "has the lock with token (%d+) and reads 100\n"
local STORY = {
    ", without the check\n", "A " .. LOCK, "A is stopped", "is over: B " .. LOCK, "B writes 105\n",
    "A goes on %C* writes 110\n", "on the account: 110\n",
    ", with the check\n", "A " .. LOCK, "A is stopped", "is over: B " .. LOCK, "B writes 105\n",
    "A goes on %C* is refused: stale\n", "on the account: 105\n",
}

local function tells(text, stories)
    local at, last = 1, 0
    for _ = 1, stories do
        for _, part in ipairs(STORY) do
            local from, to, token = text:find(part, at)
            assert.is_truthy(from, ("%q is missing in:\n%s"):format(part, text))
            if token then
                assert.is_true(tonumber(token) > last, text)
                last = tonumber(token)
            end
            at = to
        end
    end
    assert.is_nil(text:find("check\n", at), text)
end

local function succeeds(p, stories)
    local text = p:read_all(120)
    assert.equal(0, p:wait(10), text)
    tells(text, stories)
end

describe("the examples of fencing", function()
    local redis, sql, file, given

    -- They wait most of the time: all at once.
    setup(function()
        redis, sql = start(FOLDER .. "redis.lua"), start(FOLDER .. "sql.lua")
        file = start(FOLDER .. "file.lua")
        given = start(FOLDER .. "redis.lua", unpack(support.cluster(3, { unnamed = true }):uris()))
    end)

    it("show a late write being refused by Redis", function()
        succeeds(redis, 1)
    end)

    it("show it with SQL, in one row and in several", function()
        succeeds(sql, 2)
    end)

    it("show it with a file", function()
        succeeds(file, 1)
    end)

    it("work with given servers", function()
        succeeds(given, 1)
    end)
end)
