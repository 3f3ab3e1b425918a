-- After describe.lua. KEYS locks, and the slots of permits. {1, 0, '0 0 rows'}, as page.lua, with
-- the rows of those that are held.
local rows = {}
for i = 1, #KEYS do
    local key, many = named(KEYS[i])
    rows[#rows + 1] = key and #key - #prefix <= LONG and describe(key, many, KEYS[i]) or nil
end
return {1, 0, '0 0 ' .. table.concat(rows)}
