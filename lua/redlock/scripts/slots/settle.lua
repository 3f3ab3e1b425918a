-- The slot stays taken for ARGV[2] ms from now. 1; 0: gone; -1: somebody else's.
put(mine, now + ARGV[2])
return 1
