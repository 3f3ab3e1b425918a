--- The plain lock of the Redlock page, as a primitive. Other kinds whose key is the plain lock's
-- use its scripts.

local primitive = require "redlock.kinds.primitive"
local script = require("redlock.runtime.script_text").own

return primitive.new {
    name = "lock",
    rivals = true,
    acquire = script("lock.acquire", "lock.shape", "lock.refused"),
    extend = script("lock.extend", "lock.shape", "lock.not_ours"),
    extend_many = script "lock.extend_many",
    release = script("lock.release", "lock.shape", "lock.not_ours"),
    import = script("lock.import", "lock.shape", "lock.not_ours"),
    peek = script("lock.shape", "lock.only_lock", "lock.peek"),
    force = script("lock.shape", "lock.only_lock", "lock.named", "lock.force"),
    settle = script("lock.settle", "lock.extend", "lock.shape", "lock.not_ours"),
    channel = primitive.channel,
}
