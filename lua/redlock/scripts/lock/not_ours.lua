-- Comes after shape.lua, last in a script of a hold, whose `value` the key does not hold. 0:
-- nothing is there, or no lock; {-1, 0, who}, or -1: another's.
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value        -- this user may not read it, which says nothing about the holder
elseif not value or value == '' or no_lock(KEYS[1]) then
    return 0
end
return type(value) == 'string' and {-1, 0, string.sub(value, 1, 20) .. string.sub(value, 41, 215)}
    or -1
