-- The examples of fencing: each shows a late write that is refused, and what it does otherwise.
local build = require "spec.support.build"
local cli = require "spec.support.command"
local help = require "redlock.cli.help"
local mariadb = require "spec.support.mariadb"
local pages = require "spec.support.pages"
local postgres = require "spec.support.postgres"
local support = require "spec.support"
local sys = require "spec.support.sys"

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

describe("fencing in PostgreSQL", function()
    local env, stop

    setup(function() env, stop = postgres.start() end)
    teardown(function() if stop then stop() end end)

    local function psql(sql, values)
        local words = { "psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-f", "-", stdin = "pipe",
            stdout = "pipe", stderr = "stdout", env = env }
        for name, value in pairs(values or {}) do
            words[#words + 1], words[#words + 2] = "-v", name .. "=" .. value
        end
        local p = support.spawn(words)
        p:write(sql)
        p:close_stdin()
        return cli.ends(p)
    end

    it("works as the page has it: the column, the write, the script of psql", function()
        if not env then return pending "no PostgreSQL here" end
        local column, write = unpack(pages.snippets("examples/fencing/README.md", "sql"))
        assert.same({ 0, "" }, { psql("CREATE TABLE account (id int, balance int);"
            .. "INSERT INTO account VALUES (7, 100);" .. column .. ";") })
        local large = "140737488355327"                 -- 47 bits
        assert.same({ 0, "" }, { psql(write .. ";", { b = 105, t = large, id = 7 }) })
        assert.same({ 0, "" }, { psql(write .. ";", { b = 110, t = 34, id = 7 }) })
        assert.same({ 0, "105|" .. large .. "\n" }, { psql "SELECT balance, fence FROM account" })

        -- The page's way to have it fail, in the command of the help.
        local returning = pages.text "examples/fencing/README.md":match "`(RETURNING id [^`]+)`"
        assert.truthy(help.for_verb "run":find("fence <= :t " .. returning, 1, true))
        local command = help.for_verb "run":match "redlock run stock %-%- \\\n%s*(sh %-c [^\n]+)"
        local dir = support.tmpdir()
        sys.write_file(dir .. "/stock.sql", (write:gsub(":b", "1"):gsub(":id", "7")) .. " "
            .. returning .. "\n")
        local function run(token)
            env.REDLOCK_TOKEN = token
            return (cli.ends(support.spawn { "sh", "-c", command, cwd = dir, env = env,
                stdout = "pipe", stderr = "stdout" }))
        end
        assert.equal(0, run(large))
        assert.equal(3, run(34))
    end)
end)

describe("fencing in MySQL", function()
    local client, stop

    setup(function() client, stop = mariadb.start() end)
    teardown(function() if stop then stop() end end)

    local function mysql(sql)
        local p = support.spawn { stdin = "pipe", stdout = "pipe", stderr = "stdout",
            unpack(client) }
        p:write(sql)
        p:close_stdin()
        return cli.ends(p)
    end

    it("works as the page has it: a late write changes no row", function()
        if not client then return pending "no MariaDB here" end
        local column, write = unpack(pages.snippets("examples/fencing/README.md", "sql"))
        assert.same({ 0, "" }, { mysql("CREATE TABLE account (id int, balance int);"
            .. "INSERT INTO account VALUES (7, 100);" .. column .. ";") })
        local large = "140737488355327"                 -- 47 bits
        local function changed(balance, token)
            return mysql(write:gsub(":b", balance):gsub(":t", token):gsub(":id", "7")
                .. "; SELECT ROW_COUNT();")
        end
        assert.same({ 0, "1\n" }, { changed("105", large) })
        assert.same({ 0, "0\n" }, { changed("110", "34") })
        assert.same({ 0, "0\n" }, { changed("105", large) })     -- nothing new in it
        assert.same({ 0, "105\t" .. large .. "\n" }, { mysql "SELECT balance, fence FROM account" })
    end)
end)
