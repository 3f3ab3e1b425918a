-- {1, floor}: of the bucket; {0, floor}: one from before a restart, or 0: none; -1: in
-- quarantine.
if not admitted then
    return -1
end
return {tag == run and 1 or 0, floor}
