--- The plain lock of the Redlock page, as a primitive. Its scripts are in scripts/lock/.

local primitive = require "redlock.kinds.primitive"
local script_text = require "redlock.runtime.script_text"

return primitive.new {
    name = "lock",
    rivals = true,
    acquire = script_text.read "redlock.scripts.lock.acquire",
    extend = script_text.read "redlock.scripts.lock.extend",
    extend_many = script_text.read "redlock.scripts.lock.extend_many",
    release = script_text.read "redlock.scripts.lock.release",
    handover = script_text.read "redlock.scripts.lock.handover",
    peek = script_text.read "redlock.scripts.lock.peek",
    force = script_text.read "redlock.scripts.lock.force",
    settle = script_text.read "redlock.scripts.lock.settle",
    channel = primitive.channel,
}
