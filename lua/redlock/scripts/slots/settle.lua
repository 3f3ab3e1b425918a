-- The slot stays taken for ARGV[2] ms from now. 1; 0: gone, or another slot than the majority's,
-- which is let go here; -1: somebody else's.
if mine and mine ~= agreed then
    free(mine)
    mine = nil
end
if not mine then
    return call('zscore', KEYS[1], agreed) and -1 or 0
end
put(mine, now + ARGV[2])
return 1
