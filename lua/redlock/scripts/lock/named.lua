-- Begins scripts that remove what others hold. The last ARGV is what this server has told before:
-- 20 digits of a digest for each holder. Only these are removed, so that a message that comes late
-- removes no later holder. '': removes nothing, and tells; '*': also what other libraries write.
local named, told, removed = ARGV[#ARGV], {}, 0

-- Whether to remove a holder, by its value; else it is told.
local function is_named(value)
    local id = string.sub(redis.sha1hex(value), 1, 20)
    if #named > 1 then
        return string.find(named, id, 1, true) ~= nil
    end
    told[#told + 1] = id
end

-- {1, 0, ids}: told; 1: removed; 0: there is none. channel: where a removal is announced.
local function done(channel)
    if removed > 0 then
        redis.pcall('publish', channel, '')
    end
    return told[1] and {1, 0, table.concat(told, ' ')} or removed > 0 and 1 or 0
end
