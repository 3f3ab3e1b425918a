-- Appends what becomes of locks to a file, as a line of JSON for each event. A full disk may cut a
-- line short, so that it and the next one are no JSON: skip those.
--
--     local journal = dofile "journal.lua"
--     redlock.from_environment { on_event = journal("/var/log/locks.jsonl", "web-1") }
local json = require("cjson").new()
json.encode_invalid_numbers "null"                  -- the time left of a lock without an end

return function(path, who)
    return function(e)
        local row = { at = os.time(), who = who }
        for field, value in pairs(e) do
            row[field] = field ~= "owner" and value or nil
        end
        local file = assert(io.open(path, "a"))     -- each time: it may have been renamed
        file:setvbuf "no"                           -- one write: many may write to one file
        assert(file:write(json.encode(row) .. "\n"))
        assert(file:close())
    end
end
