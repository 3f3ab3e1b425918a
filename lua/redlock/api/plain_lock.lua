--- The plain lock of the Redlock page, as a primitive. Its scripts are in lock/*.lua.

local primitive = require "redlock.api.primitive"
local scripts = require "redlock.core.script_text"

return primitive.new {
    name = "lock",
    rivals = { "fenced lock" },
    acquire = scripts.read "redlock.scripts.lock.acquire",
    extend = scripts.read "redlock.scripts.lock.extend",
    release = scripts.read "redlock.scripts.lock.release",
    handover = scripts.read "redlock.scripts.lock.handover",
    peek = scripts.read "redlock.scripts.lock.peek",
    force = scripts.read "redlock.scripts.lock.force",
    settle = scripts.read "redlock.scripts.lock.settle",
    channel = primitive.channel,
}
