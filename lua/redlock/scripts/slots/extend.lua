-- Never shortens. 1; 0: gone; -1: the slot has another holder.
put(mine, math.max(now + ARGV[2], tonumber(call('zscore', KEYS[1], mine) or 0)))
return 1
