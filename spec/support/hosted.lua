-- Programs that an event loop runs, which are the same for each host.
local behaviour = require "spec.support.behaviour"
local lua = require "spec.support.lua"

local _M = {}

-- Runs code, with what behaviour.lua gives it, in a process of its own, which prints "ok" when the
-- loop has ended. loop: one of behaviour.loops.
function _M.run(cluster, loop, code)
    return lua.run(("NODES = %s %s %s main(function() %s end) print 'ok'")
        :format(cluster:text(), loop, behaviour.prelude, code), { stderr = "stdout" })
end

return _M
