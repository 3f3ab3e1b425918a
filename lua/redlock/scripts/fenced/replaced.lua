-- Begins the script of an import: ARGV[4] is the value to replace; the other arguments are as in
-- counter.lua.
local replaced = table.remove(ARGV, 4)
