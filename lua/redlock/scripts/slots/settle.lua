-- The slot stays taken for ARGV[2] ms from now. 1; 0: gone, or another slot than the majority's,
-- which is let go here; -1: somebody else's.
put(mine, now + ARGV[2])
return 1
