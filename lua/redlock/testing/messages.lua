--- The commands on channels of a modelled Redis server (redis.lua).

local store = require "redlock.testing.store"

local remove = table.remove

local bulk, command, upper = store.bulk, store.command, store.upper

local function confirm(self, conn, verb, channel, count)
    self.reply(conn, "*3\r\n" .. bulk(verb) .. bulk(channel) .. ":" .. count .. "\r\n")
end

local function unsubscribe(list, conn)
    for i = 1, #list do
        if list[i] == conn then
            remove(list, i)
            return true
        end
    end
    return false
end

command("SUBSCRIBE", 2, -1, function(self, argv, n, conn)
    for i = 2, n do
        local list = self.channels[argv[i]] or {}
        self.channels[argv[i]] = list
        local count = (self.subscriber[conn] or 0) + (unsubscribe(list, conn) and 0 or 1)
        list[#list + 1] = conn
        self.subscriber[conn] = count
        confirm(self, conn, "subscribe", argv[i], count)
    end
    return store.ANSWERED
end)

command("UNSUBSCRIBE", 2, -1, function(self, argv, n, conn)
    for i = 2, n do
        local list = self.channels[argv[i]] or {}
        local count = (self.subscriber[conn] or 0) - (unsubscribe(list, conn) and 1 or 0)
        self.subscriber[conn] = count > 0 and count or nil
        confirm(self, conn, "unsubscribe", argv[i], count)
    end
    return store.ANSWERED
end)

command("PUBLISH", 3, 3, function(self, argv)
    local list, count = self.channels[argv[2]] or {}, 0
    local message = "*3\r\n$7\r\nmessage\r\n" .. bulk(argv[2]) .. bulk(argv[3])
    for i = #list, 1, -1 do
        if self.reply(list[i], message) then
            count = count + 1
        else
            remove(list, i)
        end
    end
    return count
end)

command("PUBSUB", 2, -1, function(self, argv, n)
    if upper(argv[2]) ~= "NUMSUB" then
        return store.unsupported(self, "PUBSUB " .. argv[2])
    end
    local list = {}
    for i = 3, n do
        list[#list + 1] = argv[i]
        list[#list + 1] = #(self.channels[argv[i]] or {})
    end
    return list
end)
