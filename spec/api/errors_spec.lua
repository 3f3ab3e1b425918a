-- What an error is to those who log it, send it, or look into its text.
local cjson = require "cjson"
local redlock = require "redlock"
local support = require "spec.support"

describe("an error", function()
    local client, other, held, unreachable

    setup(function()
        local cluster = support.cluster(3)
        client, other = support.warm_client(cluster), support.warm_client(cluster)
        assert(other:getLock("a\nb"):tryLock(1))
        held = select(2, client:getLock("a\nb"):tryLock(0.01))
        local nobody = support.client({ "redis://127.0.0.1:" .. support.free_port() })
        unreachable = select(2, nobody:getLock("x"):tryLock(0))
        nobody:close()
    end)

    teardown(function()
        client:close()
        other:close()
    end)

    it("can be encoded: code, message, nodes, waited, and who has it", function()
        for err, names in pairs { [held] = { "code", "holder", "message", "nodes", "waited" },
            [unreachable] = { "code", "message", "nodes", "waited" } } do
            local copy = cjson.decode(cjson.encode(err))
            local fields = {}
            for field in pairs(copy) do
                fields[#fields + 1] = field
            end
            table.sort(fields)
            assert.same(names, fields)
            assert.equal(err.code, copy.code)
            assert.equal(err.message, copy.message)
            assert.equal(tostring(err), "redlock: " .. copy.code .. ": " .. copy.message)
            assert.is_true(math.abs(err.waited - copy.waited) < 1e-6)
            assert.same(err.nodes, copy.nodes)
            assert.equal(#err.nodes, #copy.nodes)
        end
        assert.equal("held", held.code)
        assert.equal(3, #held.nodes)
        assert.equal("no_quorum", unreachable.code)
        assert.equal("refused", unreachable.nodes[1].code)
    end)

    it("can be encoded also without nodes", function()
        local _, err = client:getLock("other"):unlock()
        assert.same({ code = "not_held", message = "lock 'other' is not held by this owner" },
            cjson.decode(cjson.encode(err)))
        _, err = client:import "nonsense"
        assert.equal("config", cjson.decode(cjson.encode(err)).code)
        local future = client:getLock("a\nb"):tryLockAsync(60)
        _, err = future:get(0.01)
        assert.equal("timeout", cjson.decode(cjson.encode(err)).code)
        future:cancel()
    end)

    it("has the methods of its text", function()
        local text = tostring(held)
        assert.matches("^redlock: held: lock 'a\\x0ab' is held by somebody else "
            .. "%([^()]+%): redis://", text)
        assert.same({ text:find("held", 1, true) }, { held:find("held", 1, true) })
        assert.equal("held", held:match "^redlock: (%w+)")
        assert.equal(text:gsub("%d", "?"), (held:gsub("%d", "?")))
        assert.equal(text:sub(1, 7), held:sub(1, 7))
        assert.equal(#text, held:len())
        assert.equal(text:upper(), held:upper())
        local words = {}
        for word in held:gmatch "%a+" do
            words[#words + 1] = word
        end
        assert.equal("redlock", words[1])
        assert.equal("x " .. text, "x " .. held)
        assert.equal(text .. " x", held .. " x")
        assert.equal(text, ("%s"):format(held))
        assert.equal(text, table.concat { tostring(held) })
    end)

    it("is told from what others raise and return", function()
        assert.is_true(redlock.is_error(held))
        assert.is_false(redlock.is_error "text")
        assert.is_false(redlock.is_error { code = "held", message = "x" })
    end)
end)
