-- The slot stays taken for ARGV[2] ms from now; while the hold continues (last ARGV ''), at least
-- as long as before. 1; 0: gone; -1: another holder.
local ends = ARGV[#ARGV] == '' and tonumber(call('zscore', KEYS[1], mine)) or 0
put(mine, math.max(now + ARGV[2], ends))
return 1
