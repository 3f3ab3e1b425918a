-- Comes after shape.lua: ends the script if KEYS[1] holds something else than a lock.
local other = no_lock(KEYS[1])
if other then
    return other
end
