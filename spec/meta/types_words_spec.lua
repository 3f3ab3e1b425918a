-- The reference (lua/redlock/types.lua) has the words that the code has: codes of errors, reasons,
-- kinds of findings, events and their fields.
local reference = require "spec.support.reference"
local typing = require "spec.support.typing"

local model = reference.model
local found, inside = reference.found, reference.inside
local differences, keys_of, set_of, values_of =
    reference.differences, reference.keys_of, reference.set_of, reference.values_of

local function assert_same(documented, real)
    assert.same({}, differences(documented, real))
end

describe("the reference of words", function()
    local C = inside "ffi".load()
    local ffi = require "ffi"

    -- The words of the core, by the names of its constants.
    local function core_words(first, last)
        local set = {}
        for code = tonumber(C[first]), tonumber(C[last]) - 1 do
            set[ffi.string(C.rl_code_name(code))] = true
        end
        return set
    end

    it("has the codes of errors", function()
        local sentences = reference.upvalue(inside "errors".new, function(value)
            return type(value) == "table" and type(value.not_held) == "string"
        end)
        assert_same(values_of "redlock.Code", keys_of(sentences))
        for word in pairs(found('errors%.new%("([%w_]+)"', 'failure%([%w_]+, "([%w_]+)"')) do
            assert.truthy(sentences[word], word)
        end
        -- What a round may end with in the core is one of them, too.
        local own = set_of { "granted", "interrupted" }
        for word in pairs(core_words("RL_GRANTED", "RL_TIMEOUT")) do
            assert.truthy(own[word] or sentences[word], word)
        end
    end)

    it("has the codes of nodes", function()
        local documented = values_of "redlock.NodeCode"
        for word in pairs(core_words("RL_TIMEOUT", "RL_CODES")) do
            assert.is_true(documented[word], word)
        end
        local all = core_words("RL_OK", "RL_CODES")
        for word in pairs(documented) do
            assert.truthy(all[word] or word == "pending", word)
        end
        assert.is_true(found('"(pending)"').pending)
    end)

    it("has the reasons of losses", function()
        local reasons = {}
        for name in inside "cdef".cdef:gmatch "RL_LOSS_([%u_]+)" do
            reasons[name:lower()] = true
        end
        assert_same(values_of "redlock.LossReason", reasons)
    end)

    it("has the signals", function()
        assert_same(values_of "redlock.Signal", inside "options".signals)
    end)

    it("has the kinds of findings", function()
        assert_same(values_of "redlock.FindingKind",
            found('found%("([%w_]+)"', 'kind = "([%w_]+)"', '(%l+) = "error"'))
    end)
end)

describe("the reference of events", function()
    -- type -> the fields that an event of that type has where it is told of.
    local function emitted()
        local events = {}
        for _, text in ipairs(reference.sources) do
            for event in text:gmatch ":emit%s*(%b{})" do
                local fields = {}
                for key in event:gmatch "[{,]%s*([%a_]+)%s*=" do
                    fields[key] = true
                end
                for word in event:match("type%s*=%s*([^,}]*)"):gmatch '"([%w_]+)"' do
                    events[word] = fields
                end
            end
        end
        return events
    end

    local function documented()
        local events = {}
        for _, class in ipairs(model["redlock.Event"].values) do
            local fields = typing.fields(model, class.type)
            assert.equal("redlock.AnyEvent", model[class.type].parents[1], class.type)
            for word in fields.type.type:gmatch '"([%w_]+)"' do
                events[word] = fields
            end
        end
        return events
    end

    it("has them all, with their fields", function()
        local real, told = emitted(), documented()
        assert_same(keys_of(told), keys_of(real))
        for word, fields in pairs(real) do
            local names = keys_of(told[word])
            names.time = nil         -- all have that
            assert.same({}, differences(names, fields), word)
        end
    end)
end)
