-- The reference (lua/redlock/types.lua) has the words that the code has: codes of errors and of
-- servers, reasons, kinds of findings, events and their fields.
local ffi = require "ffi"
local reference = require "spec.support.reference"
local typing = require "spec.support.typing"

local model = reference.model
local found, inside = reference.found, reference.inside
local differences, keys_of = reference.differences, reference.keys_of

local function assert_same(alias, real)
    assert.same({}, differences(reference.values_of(alias), real))
end

describe("the reference of words", function()
    local C = inside "ffi".load()

    -- The words of the core, by the names of its constants.
    local function core_words(first, last, words)
        for code = tonumber(C[first]), tonumber(C[last]) - 1 do
            words[ffi.string(C.rl_code_name(code))] = true
        end
        return words
    end

    it("has the codes of errors", function()
        local sentences = reference.upvalue(inside "errors".new, function(value)
            return type(value) == "table" and type(value.not_held) == "string"
        end)
        assert_same("redlock.Code", keys_of(sentences))
        local used = found('errors%.new%("([%w_]+)"', 'failure%([%w_]+, "([%w_]+)"')
        core_words("RL_GRANTED", "RL_TIMEOUT", used).granted = nil
        used.interrupted = nil       -- the core's own
        for word in pairs(used) do
            assert.truthy(sentences[word], word)
        end
    end)

    it("has the codes of servers, the reasons of losses, signals and kinds of findings", function()
        for word in pairs(core_words("RL_TIMEOUT", "RL_CODES", {})) do
            assert.is_true(reference.values_of("redlock.NodeCode")[word], word)
        end
        local reasons = {}
        for name in inside "cdef".cdef:gmatch "RL_LOSS_([%u_]+)" do
            reasons[name:lower()] = true
        end
        assert_same("redlock.LossReason", reasons)
        assert_same("redlock.Signal", inside "options".signals)
        local kinds = found('found%("([%w_]+)"', 'kind = "([%w_]+)"',
            'warn%("([%w_]+)"', 'tell%("([%w_]+)"', 'or "([%w_]+)", command,',
            'and "(%l+)" or "rights"', 'KINDS%[row.why%] or "([%w_]+)"')
        for words in pairs(found "local KINDS = ({ new = [^}]*)") do
            for kind in words:gmatch '"([%w_]+)"' do
                kinds[kind] = true
            end
        end
        assert_same("redlock.FindingKind", kinds)
    end)

    it("has all events, with the fields that they have where they are emitted", function()
        local real, documented = {}, {}
        for _, text in ipairs(reference.sources) do
            for event in text:gmatch ":emit%s*(%b{})" do
                local fields = { time = true }       -- all have that
                for key in event:gmatch "[{,]%s*([%a_]+)%s*=" do
                    fields[key] = true
                end
                for word in event:match("type%s*=%s*([^,}]*)"):gmatch '"([%w_]+)"' do
                    real[word] = fields
                end
            end
        end
        for _, class in ipairs(model["redlock.Event"].values) do
            local fields = typing.fields(model, class.type)
            for word in fields.type.type:gmatch '"([%w_]+)"' do
                documented[word] = keys_of(fields)
            end
        end
        assert.same(documented, real)
    end)
end)
