--- Two who ask (ask.lua), with leases that are shorter than the time-out.

return setmetatable({ lease = 0.2 }, { __index = require "spec.exhaust.worlds.ask" })
