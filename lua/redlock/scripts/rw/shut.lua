-- After lock/acquire.lua: a refused writer that waits closes the door for ARGV[3] ms (0: it does
-- not wait). A grant leaves the door as it is, for it may be of a minority.
if ARGV[3] ~= '0' then
    redis.call('set', KEYS[2], '', 'PX', ARGV[3])
end
