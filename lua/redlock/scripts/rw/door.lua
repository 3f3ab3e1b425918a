-- Begins all scripts of a fenced writer. Removes ARGV[7], for how long a writer that waits keeps
-- the door closed, in ms (0: it does not wait), so that later parts find their own arguments.
local door, keep = 'redlock:{' .. KEYS[1] .. '}:door', table.remove(ARGV, 7)
