-- The client, made once: all requests of a worker share it, and its queue of waiters.
local redlock = require "redlock"

local nodes = {}
for uri in (os.getenv "REDLOCK_NODES" or "redis://127.0.0.1:6379"):gmatch "%S+" do
    nodes[#nodes + 1] = uri
end

return redlock.new { nodes = nodes }
