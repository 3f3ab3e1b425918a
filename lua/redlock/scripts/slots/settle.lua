-- The slot stays taken for ARGV[2] ms from now. 1; 0: gone; -1: another holder.
put(mine, now + ARGV[2])
return 1
