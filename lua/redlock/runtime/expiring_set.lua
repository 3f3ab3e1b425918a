--- Values by name, each remembered for some seconds.
--
-- Two tables: the names of this period and those of the one before, which is thrown away whole.
-- So a name that is never asked for again costs nothing later, and nothing is searched.

local setmetatable = setmetatable

local _M = {}

local ExpiringSet = {}
ExpiringSet.__index = ExpiringSet

--- @param seconds  how long a name is remembered at least, and twice as long at most if others come
function _M.new(seconds)
    return setmetatable({ seconds = seconds, now = {}, before = {}, since = 0 }, ExpiringSet)
end

--- Remembers a value from `now` on, seconds of a clock that never goes back.
function ExpiringSet:add(name, now, value)
    if now - self.since >= self.seconds then
        self.now, self.before, self.since = {}, self.now, now
    end
    self.now[name] = value
end

function ExpiringSet:get(name)
    return self.now[name] or self.before[name]
end

return _M
