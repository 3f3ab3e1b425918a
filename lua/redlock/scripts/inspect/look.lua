-- After describe.lua. KEYS: the keys of locks, and those of the slots of permits. Answers as
-- page.lua does when it has looked at everything: {1, 0, '0 0 rows'}, with a row for each key that
-- is held.
local rows = {}
for i = 1, #KEYS do
    local key, many = named(KEYS[i])
    rows[#rows + 1] = key and #key - #prefix <= LONG and describe(key, many, KEYS[i]) or nil
end
return {1, 0, '0 0 ' .. table.concat(rows)}
