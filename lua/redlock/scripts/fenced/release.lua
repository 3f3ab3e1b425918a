-- ARGV[2] 0: not to be announced. 1: deleted; {1, n}: deleted, and n waiters were woken; 0: it was
-- gone; -1: another holder. The counter catches up first.
if found[2] ~= run .. ARGV[3] .. mine then
    local token, stored = tonumber(ARGV[3]), counted_in(found[2])
    local floor = floor_of_bucket()
    if floor and token > (stored or floor) then
        write(token, floor)
    end
end
return let_go()
