-- Somebody waits no more: what look.lua left is taken away. ARGV[1] the prefix, [2] who waited; [3]
-- on: the values of what he holds. How many there were.
local n = 0
for i = 3, #ARGV do
    local key = 'redlock:{' .. ARGV[1] .. redis.sha1hex(ARGV[i]) .. '}:waits'
    local said = redis.pcall('get', key)
    if type(said) == 'string' and string.sub(said, 1, #ARGV[2]) == ARGV[2] then
        n = n + redis.call('del', key)
    end
end
return n
