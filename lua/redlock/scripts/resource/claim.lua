-- Before owner.lua: from here on it is mine, whoever had it.
redis.call('set', KEYS[1], ARGV[1])
