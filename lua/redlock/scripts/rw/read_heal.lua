-- Acquires despite a closed door: the majority has let this reader in before. 2: here, too.
if kind ~= 'zset' and kind ~= 'none' then
    return 0
end
put(math.max(mine, now + ARGV[2]))
return mine > 0 and 2 or 1
