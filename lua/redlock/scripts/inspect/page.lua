-- After describe.lua. ARGV[3] the cursor ('0': the beginning), [4] SCAN's pattern, [5] how many
-- keys to look at. {1, how many were, 'cursor long rows'}: the next cursor ('0': none), how many
-- names are too long to report, and the rows of the others from describe.lua.
local cursor, looked, long, rows = ARGV[3], 0, 0, {}
repeat
    local page = call('scan', cursor, 'match', ARGV[4], 'count', 50)
    cursor, looked = page[1], looked + 50
    for _, from in ipairs(page[2]) do
        local key, many = named(from)
        local text = key and describe(key, many, from)
        if text and #key - #prefix > LONG then
            long = long + 1
        elseif text then
            rows[#rows + 1] = text
        end
    end
until cursor == '0' or looked >= tonumber(ARGV[5]) or #rows >= 50
return {1, looked, cursor .. ' ' .. long .. ' ' .. table.concat(rows)}
