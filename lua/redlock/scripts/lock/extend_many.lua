-- KEYS the locks, ARGV for each of them its value and its lease in ms: extend.lua for many.
-- A string with a letter for each: 1: ours until then at least; 0: ask for it alone, as it is gone
-- or somebody else's, or has more time already, or no end.
local said = {}
for i = 1, #KEYS do
    local yes = 0
    if redis.pcall('get', KEYS[i]) == ARGV[2 * i - 1] then
        local lease = ARGV[2 * i]
        yes = redis.pcall('pexpire', KEYS[i], lease, 'GT')
        if type(yes) == 'table' and redis.call('pttl', KEYS[i]) < tonumber(lease) then
            yes = redis.call('pexpire', KEYS[i], lease)      -- before Redis 7.0
        end
    end
    said[i] = yes == 1 and '1' or '0'
end
return table.concat(said)
