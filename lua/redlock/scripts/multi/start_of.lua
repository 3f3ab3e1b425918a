-- Declares start_of(key): the value of a key, or the beginning of a long one, for the time of a
-- server is everybody's; false: there is none, or it is no string.
local function start_of(key)
    local value = redis.pcall('getrange', key, 0, 256)
    return type(value) == 'string' and value ~= '' and value
end
