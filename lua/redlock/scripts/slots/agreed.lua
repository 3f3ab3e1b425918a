-- Before extend and settle: the slot that a majority gave, and no other one.
if mine and mine ~= agreed then
    free(mine)
    mine = nil
end
if not mine then
    return call('zscore', KEYS[1], agreed) and -1 or 0
end
