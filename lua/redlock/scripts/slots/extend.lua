-- Never shortens. 1; 0: gone, or another slot than the majority's, which is let go here; -1: the
-- slot is somebody else's.
if mine and mine ~= agreed then
    free(mine)
    mine = nil
end
if not mine then
    return call('zscore', KEYS[1], agreed) and -1 or 0
end
put(mine, math.max(now + ARGV[2], tonumber(call('zscore', KEYS[1], mine))))
return 1
