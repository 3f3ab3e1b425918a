-- What a script begins with that works on a resource claimed by a random value.
-- KEYS[1] the value of whoever claimed it last, KEYS[2..] the data. ARGV[1] my value, [2] how
-- long a claim stays without use in ms (0: for ever), [3..] for the rest of the script, which
-- returns {1, reply}. {0}: refused, and nothing was touched.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return {0}
end
if ARGV[2] ~= '0' then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
