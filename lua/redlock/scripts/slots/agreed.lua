-- Before extend and settle: replaces any other slot by the one that a majority gave, unless that
-- one has another holder here.
if mine and mine ~= agreed then
    local ends = call('zscore', KEYS[1], mine)
    free(mine)
    mine = not call('zscore', KEYS[1], agreed) and agreed
    if mine then put(mine, ends) end
end
if not mine then
    return call('zscore', KEYS[1], agreed) and -1 or 0
end
