-- What all scripts of a fenced writer begin with. ARGV[7] for how long one that waits keeps the
-- door closed, in ms; 0: it does not wait. What follows finds its arguments as if that were not
-- there.
local door, keep = 'redlock:{' .. KEYS[1] .. '}:door', table.remove(ARGV, 7)
