--- A releases, B asks (release.lua), and all is over long before a lease ends: what is left then
-- was not let go.

return setmetatable({ lease = 40, seconds = 2, more = 30 },
    { __index = require "spec.exhaust.worlds.release" })
