-- {1, floor}: the bucket's; {0, floor}: from before a restart, or 0: none; {2, floor}: out of
-- range, of any run; -1: in quarantine.
if not admitted then
    return -1
end
return {wild and 2 or tag == run and 1 or 0, math.min(floor, 1e15)}
