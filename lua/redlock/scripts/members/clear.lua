-- KEYS[1] the marker of a server that is in no list any more, KEYS[2] the ballot; ARGV[1] the
-- marker as it was seen. The server begins anew, with a quarantine. 1: done; 0: it is another one.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('del', KEYS[1], KEYS[2])
return 1
