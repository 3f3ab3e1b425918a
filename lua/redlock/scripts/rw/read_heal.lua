-- As acquire, past the door: the majority has let it in before.
if kind ~= 'zset' and kind ~= 'none' then
    return 0
end
put(math.max(mine, now + ARGV[2]))
return 1
