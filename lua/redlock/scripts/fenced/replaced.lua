-- Begins the script of a hand-over: ARGV[4] is the value to replace; the other arguments are as in
-- counter.lua.
local replaced = table.remove(ARGV, 4)
