-- Before extend and settle: the slot that a majority gave. Another one is changed for it.
if mine and mine ~= agreed then
    free(mine)
    mine = not call('zscore', KEYS[1], agreed) and agreed
end
if not mine then
    return call('zscore', KEYS[1], agreed) and -1 or 0
end
