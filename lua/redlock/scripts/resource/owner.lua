-- Begins a script that works on a resource claimed with a random value.
-- KEYS[1] the value of the last claim, KEYS[2..] the data. ARGV[1] the caller's value, [2] how
-- long an unused claim stays, in ms (0: for ever), [3..] for the rest of the script, which
-- returns {1, reply}. {0}: refused; nothing was changed.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return {0}
end
if ARGV[2] ~= '0' then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
