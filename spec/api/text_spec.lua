-- Texts of others, servers and whoever chooses names: nothing in them acts on a terminal, forges
-- a line of a log, or makes JSON that others cannot read.
local cjson = require "cjson"
local command = require "spec.support.command"
local redlock = require "redlock"
local support = require "spec.support"
local sys = require "spec.support.sys"

-- A title, a cleared screen, a line of a log, C1's CSI as a byte and as UTF-8, a cut character.
local EVIL = "\27]0;pwned\7\27[2J\n2026/01/01 00:00:00 [alert] 1#1: forged\r\t\0"
    .. "\127\155\194\155\195"

local PATIENT = { timeout = 5, connect_timeout = 10 }       -- with the only server

local function assert_harmless(text)
    assert.is_nil(text:find "[^\n -~]", ("%q"):format(text))
    assert.is_nil(text:find("\n2026", 1, true))
end

local function assert_utf8(text)
    local path = support.tmpdir() .. "/text"
    sys.write_file(path, text)
    local p = support.spawn { "iconv", "-f", "UTF-8", "-t", "UTF-16", path, stdout = "null",
        stderr = "null" }
    assert.equal(0, p:wait(10), ("%q"):format(text))
end

describe("texts of others", function()
    local server

    setup(function()
        server = support.server()
    end)

    before_each(function()
        server:call "FLUSHALL"
    end)

    local function run(verb, ...)
        return command.ends(command.start({ uris = function() return { server.uri } end }, "/",
            {}, verb, "--timeout", "5", ...))
    end

    it("that refuse a connection", function()
        -- A line break in it ends the connection.
        local h = support.hostile { reply = "-NOAUTH " .. EVIL:gsub("[\r\n]", "") .. "\r\n" }
        local client = support.client({ h.uri }, PATIENT)
        local _, err = client:getLock("x"):tryLock(0)
        assert.equal("auth", err.nodes[1].code, err.nodes[1].message)
        assert.matches("NOAUTH %?%]0;pwned%?%?%[2J2026", err.nodes[1].message)
        assert_harmless(tostring(err))
        assert_harmless(tostring(client:check()))
        client:close()
        h:stop()
    end)

    it("that answer a script", function()
        local evil = redlock.primitive { name = "evil", release = "return 1",
            acquire = ("return redis.error_reply('ERR ' .. %q)"):format(EVIL:gsub("%z", "")) }
        local client = support.client({ server.uri }, PATIENT)
        local _, err = client:get(evil, "x"):tryLock(0)
        assert.equal("script", err.nodes[1].code)
        assert.matches("%?%]0;pwned%?%?%[2J", err.nodes[1].message)
        assert_harmless(tostring(err))
        client:close()
    end)

    it("that are paths", function()
        local function row(opts)
            local uri = opts.ca_file and "rediss://127.0.0.1" or server.uri
            opts.timeout, opts.connect_timeout = 5, 10
            local client = support.client({ uri }, opts)
            assert_harmless(tostring(client:check()))
            local _, err = client:getLock("x"):tryLock(0)
            client:close()
            assert_harmless(tostring(err))
            return tostring(err)
        end
        local path = support.tmpdir() .. "/" .. EVIL:gsub("[%z/]", "")
        assert.matches("%?%]0;pwned%?.*: No such file", row { password_file = path })
        sys.write_file(path, "secret")
        assert.matches("AUTH", row { password_file = path })
        assert.matches("ca_file .*%?%]0;pwned%?", row { ca_file = path })
    end)

    it("that are names", function()
        local client = support.client { server.uri }
        local l = client:getLock(EVIL)
        assert_harmless(tostring(l))
        local _, err = l:unlock()
        assert.matches("\\x1b%]0;pwned\\x07", tostring(err))
        assert_harmless(tostring(err))
        assert.is_false((pcall(l.check, l)))
        assert_harmless(select(2, pcall(l.check, l)))
        client:close()
    end)

    describe("in what the command says", function()
        -- Whoever else uses the server may have put anything there.
        local NAME = EVIL:gsub("%z", "")

        before_each(function()
            server:call("SET", NAME, EVIL, "PX", 60000)
        end)

        it("of a lock", function()
            local status, text = run("status", NAME)
            assert.equal(0, status, text)
            assert.matches("^\\x1b%]0;pwned\\x07\\x1b%[2J\\x0a2026[^\n]* is held, for", text)
            assert_harmless(text)
            assert_harmless(select(2, run("unlock", NAME)))
            assert_harmless(select(2, run("unlock", "-f", "--foreign", NAME)))
            status, text = run("status", NAME)
            assert.equal(3, status)
            assert_harmless(text)
        end)

        it("of a lock, in JSON", function()
            local status, text = run("status", NAME, "--json")
            assert.equal(0, status, text)
            assert.is_nil(text:gsub("\n$", ""):find "[%c\127]")
            assert_utf8(text)
            local said = cjson.decode(text)
            assert.equal("\27]0;pwned\7", said.name:sub(1, 10))
            assert.equal("\127\239\191\189\194\155\239\191\189", said.name:sub(-9))
        end)
    end)

    -- Also what is cut in the middle, overlong, a surrogate, or beyond U+10FFFF.
    it("of any bytes are UTF-8 in JSON, and what is UTF-8 stays as it is", function()
        local json = require "redlock.text.json"
        local all = {}
        for i = 0, 255 do
            all[#all + 1] = string.char(i)
            all[#all + 1] = "a" .. string.char(i) .. "\128"
            all[#all + 1] = string.char(i) .. "\191\191"
            all[#all + 1] = string.char(i) .. "\128\128\128"
            all[#all + 1] = string.char(i) .. "\143\191\191b"
        end
        local text = json.encode(all)
        assert.is_nil(text:find "[%c\127]")
        assert_utf8(text)
        assert.equal(#all, #cjson.decode(text))
        for _, good in ipairs { "größe", "€", "\240\159\148\146", "\244\143\191\191",
            "\237\159\191" } do
            assert.equal('"' .. good .. '"', json.encode(good))
        end
        assert.equal('"\\u009b"', json.encode "\194\155")
        assert.equal('"\\ufffd\\ufffd\\ufffd"', json.encode "\237\160\128")
    end)
end)
