-- Acquires despite a closed door: the majority has let this reader in before.
if kind ~= 'zset' and kind ~= 'none' then
    return 0
end
put(math.max(mine, now + ARGV[2]))
return 1
