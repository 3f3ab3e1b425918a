--- The plain lock of the Redlock page, as a primitive. Its scripts are in lock/*.lua.

local primitive = require "redlock.primitive"
local scripts = require "redlock.scripts"

return primitive.new {
    name = "lock",
    rivals = { "fenced lock" },
    acquire = scripts.read "redlock.lock.acquire",
    extend = scripts.read "redlock.lock.extend",
    release = scripts.read "redlock.lock.release",
    handover = scripts.read "redlock.lock.handover",
    peek = scripts.read "redlock.lock.peek",
    force = scripts.read "redlock.lock.force",
    settle = scripts.read "redlock.lock.settle",
    channel = primitive.channel,
}
