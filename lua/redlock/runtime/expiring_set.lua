--- Names, each remembered for some seconds.
--
-- Two tables: the names of this period and those of the one before, which is thrown away whole.
-- So a name that is never asked for again costs nothing later, and nothing is searched.

local max, setmetatable = math.max, setmetatable

local _M = {}

local ExpiringSet = {}
ExpiringSet.__index = ExpiringSet

--- @param seconds  how long a name is remembered at most
function _M.new(seconds)
    return setmetatable({ seconds = seconds, now = {}, before = {}, since = 0 }, ExpiringSet)
end

--- Remembers a name for `seconds` from `now` on, seconds of a clock that never goes back.
function ExpiringSet:add(name, now, seconds)
    if now - self.since >= self.seconds then
        self.now, self.before, self.since = {}, self.now, now
    end
    self.now[name] = now + seconds
end

--- @return for how many seconds more a name is remembered; 0: the name is not
function ExpiringSet:left(name, now)
    local ends = self.now[name] or self.before[name]
    return ends and max(ends - now, 0) or 0
end

return _M
