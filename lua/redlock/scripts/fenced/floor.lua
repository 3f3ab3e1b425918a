-- {1, floor}: of the bucket; {0, floor}: one from before a restart, or 0: none; {2, floor}: it is
-- out of range, whichever run it is of; -1: in quarantine.
if not admitted then
    return -1
end
return {wild and 2 or tag == run and 1 or 0, math.min(floor, 1e15)}
