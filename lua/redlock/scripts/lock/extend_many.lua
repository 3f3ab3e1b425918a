-- extend.lua for many locks. KEYS the locks, ARGV the value and the lease in ms for each.
-- Returns one letter for each. 1: ours for at least that long; 0: ask for it alone, as it is gone,
-- another's, has more time already, or has no end.
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
