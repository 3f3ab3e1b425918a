-- ARGV[1] the channel of those who look on: there is no leader any more. 1.
redis.pcall('publish', ARGV[1], '')
return 1
