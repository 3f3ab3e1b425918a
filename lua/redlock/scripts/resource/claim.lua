-- Before owner.lua: takes the resource from its previous owner.
redis.call('set', KEYS[1], ARGV[1])
