-- Fencing tokens in SQL: the check is a condition of the write itself. In one row, and for
-- work on several rows in one transaction.
-- Needs the package lua-dbi-sqlite3. `make fencing` runs it; arguments: the servers of the
-- lock. The statements also work in PostgreSQL; MySQL has another syntax for the upsert.

local DBI = require "DBI"
local story = require "examples.fencing.story"
local support = require "spec.support"

local function connect(path)
    local db = assert(DBI.Connect("SQLite3", path))
    local function run(sql, ...)
        local statement = assert(db:prepare(sql))
        assert(statement:execute(...))
        return statement
    end
    db:autocommit(true)
    run "PRAGMA busy_timeout = 10000"
    return db, run
end

local function create()
    local path = support.tmpdir() .. "/bank.db"
    local _, run = connect(path)
    -- bigint elsewhere: tokens need 47 bits.
    run [[CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL,
                                fence INTEGER NOT NULL DEFAULT 0)]]
    run [[CREATE TABLE ledger (id INTEGER NOT NULL, balance INTEGER NOT NULL)]]
    run [[CREATE TABLE lock_fence (name TEXT PRIMARY KEY, token INTEGER NOT NULL)]]
    run "INSERT INTO account (id, balance) VALUES (7, 100)"
    return path
end

local function balance_of(run)
    return run("SELECT balance FROM account WHERE id = 7"):fetch(true).balance
end

local function balance(path)
    local _, run = connect(path)
    return balance_of(run)
end

local function unchecked(path)
    local _, run = connect(path)
    return {
        read = function() return balance_of(run) end,
        write = function(_, value)
            return run("UPDATE account SET balance = ? WHERE id = 7", value):affected() == 1
        end,
    }
end

-- ---- one row: a column `fence` in it ---------------------------------------------------

local row = { title = "A row in SQL", create = create, unchecked = unchecked, balance = balance }

function row.checked(path)
    local _, run = connect(path)

    -- No row was changed: the token is too old (or there is no such row).
    local function changed(statement)
        if statement:affected() == 0 then
            return nil, "stale"
        end
        return true
    end

    -- What is read in order to be written needs the fence raised first.
    local function read(token)
        local ok, why = changed(run([[UPDATE account SET fence = ?
            WHERE id = 7 AND fence <= ?]], token, token))
        if not ok then
            return nil, why
        end
        return balance_of(run)
    end

    local function write(token, value)
        return changed(run([[UPDATE account SET balance = ?, fence = ?
            WHERE id = 7 AND fence <= ?]], value, token, token))
    end

    return { read = read, write = write }
end

-- ---- several rows: a table of fences, and a transaction ---------------------------------

local rows = { title = "Several rows in SQL", create = create, unchecked = unchecked,
    balance = balance }

function rows.checked(path)
    local db, run = connect(path)

    -- fn in a transaction that begins with the fence: the row of the lock's name stays locked
    -- until the end, and holders that are too old change nothing. Rows of lock_fence are
    -- never deleted.
    local function fenced(token, fn)
        db:autocommit(false)
        local ok, result = pcall(function()
            local fence = run([[INSERT INTO lock_fence (name, token) VALUES ('account:7', ?)
                ON CONFLICT (name) DO UPDATE SET token = excluded.token
                WHERE lock_fence.token <= excluded.token]], token)
            return fence:affected() == 1 and fn()
        end)
        if ok and result then
            assert(db:commit())
        else
            db:rollback()
        end
        db:autocommit(true)
        if not ok then
            error(result, 0)
        elseif not result then
            return nil, "stale"
        end
        return result
    end

    local function read(token)
        return fenced(token, function() return balance_of(run) end)
    end

    local function write(token, value)
        return fenced(token, function()
            run("UPDATE account SET balance = ? WHERE id = 7", value)
            run("INSERT INTO ledger (id, balance) VALUES (7, ?)", value)
            return true
        end)
    end

    return { read = read, write = write }
end

-- Do not compare tokens in the program, between a SELECT and an UPDATE: that is the race
-- again. And reading them with LuaDBI needs CAST(fence AS TEXT): it returns 32 bits.

story.run(arg[0], { row, rows }, arg)
