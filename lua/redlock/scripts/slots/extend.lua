-- Never shortens. 1; 0: gone, or another slot than the majority's, which is let go here; -1: the
-- slot is somebody else's.
put(mine, math.max(now + ARGV[2], tonumber(call('zscore', KEYS[1], mine))))
return 1
