-- 1: this value still holds it, and the counter is the token; {0, counter}: the counter is past
-- the token; -1: another value; -2: no floor.
if value ~= ARGV[1] then
    return -1
end
if counter and counter > token then
    return {0, counter}
end
return counter and count_to(token) and 1 or -2
