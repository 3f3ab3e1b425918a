-- Tells observers that the leader has changed. ARGV[1] their channel. 1.
redis.pcall('publish', ARGV[1], '')
return 1
