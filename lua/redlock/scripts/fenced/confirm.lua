-- 1: still ours, and the counter is the token; {0, counter}: it is past that; -1: not ours;
-- -2: no floor.
if value ~= ARGV[1] then
    return -1
end
if counter and counter > token then
    return {0, counter}
end
return counter and count_to(token) and 1 or -2
