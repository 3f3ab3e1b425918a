-- Comes last, after lock/shape.lua: not all of `found` is ours. 0: what is missing is gone, or no
-- lock is there; -1: another's.
for i = 1, #KEYS do
    if found[i] ~= ARGV[1] and redis.call('exists', KEYS[i]) == 1 and not no_lock(KEYS[i]) then
        return -1
    end
end
return 0
