--- The multi-lock: several names at once, all or none.
--
-- Its keys are the plain locks' own, so a multi-lock and the plain, fenced or read-write locks of
-- any of its names exclude each other. Each server grants all keys or none in one step, and one
-- majority decides for all. It holds nothing while it waits, so sets cannot deadlock.
--
-- Its name for the rest of the library is the length and the bytes of each name, in order.

local lock = require "redlock.lock.lock"
local limits = require "redlock.runtime.limits"
local primitive = require "redlock.kinds.primitive"
local printable = require("redlock.text.encoding").printable
local script = require("redlock.runtime.script_text").own
local validate = require "redlock.runtime.validate"

local ipairs, tonumber, type = ipairs, tonumber, type
local concat, sort, format = table.concat, table.sort, string.format
local match, sub = string.match, string.sub

local _M = {}

-- joined name -> its list of names, until the collector frees it
local known = setmetatable({}, { __mode = "v" })

-- Splits a joined name into its sorted list; nil: it is not what join() makes.
local function names_of(joined)
    if known[joined] then
        return known[joined]
    end
    local names, at = {}, 1
    while at <= #joined do
        local digits, first = match(joined, "^([1-9]%d*):()", at)
        local last = digits and #digits <= 5 and first + tonumber(digits) - 1
        if not last or last > #joined or #names == limits.MAX_KEYS
            or #names > 0 and names[#names] >= sub(joined, first, last) then
            return nil
        end
        names[#names + 1] = sub(joined, first, last)
        at = last + 1
    end
    known[joined] = names[1] and names
    return known[joined]
end

local function join(names)
    local parts = {}
    for i, name in ipairs(names) do
        parts[i] = #name .. ":" .. name
    end
    return concat(parts)
end

local function keys(client, name)
    local list = {}
    for i, one in ipairs(names_of(name)) do
        list[i] = client.options.prefix .. one
    end
    return list
end

-- The channel of the key that is held the longest, by the last answers.
local function channel(client, name, wait)
    return primitive.channel(client, names_of(name)[wait.blocking or 1])
end

local function refused(multi, wait, answers)
    local longest, names = -1, names_of(multi.name)
    for _, answer in ipairs(answers) do
        local i = tonumber(match(answer.data, "^%d+"))
        if answer.vote == 0 and i and names[i] and answer.info > longest then
            longest, wait.blocking = answer.info, i
        end
    end
end

local methods = {}

function methods:getNames()
    local list = {}
    for i, name in ipairs(names_of(self.name)) do
        list[i] = name
    end
    return list
end

local function describe(view)
    local names = names_of(view.name)
    local first = format("'%s'", printable(names[1]))
    return #names == 1 and first or format("%s and %d more", first, #names - 1)
end

function methods:describe()
    return "multi-lock " .. describe(self)
end

function methods:__tostring()
    local left = self:remaining()
    return format("multi-lock(%s, %s)", describe(self),
        left > 0 and format("held, %.1f s", left) or "not held")
end

_M.primitive = primitive.new {
    name = "multi-lock",
    rivals = true,
    waits = true,
    names = names_of,
    acquire = script("multi.start_of", "multi.acquire", "lock.shape", "multi.refused"),
    extend = script("multi.extend", "lock.shape", "multi.not_ours"),
    release = script("multi.start_of", "multi.release", "lock.shape", "multi.not_ours"),
    import = script "multi.import",
    peek = script("multi.start_of", "lock.shape", "multi.peek"),
    keys = keys,
    channel = channel,
    refused = refused,
    methods = methods,
}

function _M.new(client, names, opts)
    if type(names) ~= "table" or #names < 1 then
        validate.bad("names", "a list of names is needed")
    end
    local list, seen = {}, {}
    for i = 1, #names do
        local name = validate.name(format("names[%d]", i), names[i], limits.MAX_NAME)
        if lock.is_reserved(client, name) then
            validate.bad(format("names[%d]", i), "such keys are the library's own")
        elseif not seen[name] then
            seen[name], list[#list + 1] = true, name
        end
    end
    if #list > limits.MAX_KEYS then
        validate.bad("names", format("%d names are too many; at most %d", #list, limits.MAX_KEYS))
    end
    sort(list)
    local joined = join(list)
    if #joined > limits.MAX_NAME then
        validate.bad("names", format("%d bytes all together are too long; at most %d", #joined,
            limits.MAX_NAME))
    end
    return lock.new(client, _M.primitive, joined, opts)
end

return _M
