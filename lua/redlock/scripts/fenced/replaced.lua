-- What the script of a hand-over begins with: the value that it takes the place of comes
-- behind the token, and the rest is as counter.lua has it.
local replaced = table.remove(ARGV, 4)
