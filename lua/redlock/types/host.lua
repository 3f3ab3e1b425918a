---@meta redlock.host.loop

-- Part of types.lua: hosts, which wait for the library.

---Makes hosts for your own event loops. `redlock.host.luv` and `redlock.host.cqueues` are ready;
---plain LuaJIT and nginx choose theirs. See examples/own_loop.lua.
---@class redlock.host.loop
local loop = {}

---Makes a host from the functions of an event loop.
---```lua
---local host = require("redlock.host.loop").new {
---    name = "my loop",
---    suspend = function(waiter)
---        waiter.co = coroutine.running()
---        coroutine.yield()
---        waiter.co = nil
---    end,
---    wake = function(waiter) assert(coroutine.resume(waiter.co)) end,
---    listen = function(box) my_loop.watch(box:fd(), function() return box:drain() > 0 end) end,
---}
---local c = redlock.new { nodes = servers, host = host }
---```
---@param def redlock.LoopDefinition  the functions of the loop
---@return redlock.Host host  for the option `host`
function loop.new(def) end

---An event loop's functions, as the library calls them.
---@class (exact) redlock.LoopDefinition
---@field name string  for messages
---@field suspend fun(waiter: table)  suspends the running coroutine until `wake`; may return early
---@field wake fun(waiter: table)  makes `suspend` return; may be called before `suspend`
---@field listen fun(box: redlock.Box, waiter?: table)  polls `box:fd`, and calls `box:drain`
---@field owner? fun(): any  the calling owner; default: the running coroutine
---@field alive? fun(owner: any): boolean  whether it can call again; default: its coroutine can
---@field can_wait? fun(): boolean  whether the caller may be suspended now; default: always
---@field spawn? fun(fn: function)  runs fn in a coroutine that may suspend; default: a new one
---@field defer? fun(fn: function)  as spawn, but soon, for the user's callbacks; default: `spawn`
---@field remind? fun(s: number, fn: function)  calls fn in s seconds; must not keep the loop alive
---@field log? fun(text: string)  default: writes to stderr
---@field warn? fun(text: string)  gets changes of servers if `on_event` is "auto"

---How the library waits: a module such as `redlock.host.luv`, or a result of `redlock.host.loop`.
---@class redlock.Host
---@field name string  for messages

---Delivers finished rounds to a host's loop. For `listen` of a host.
---@class redlock.Box
local Box = {}

---Returns the descriptor to poll for reading. Do not read or close it.
---```lua
---local function listen(box)
---    my_loop.watch(box:fd(), function() return box:drain() > 0 end)
---end
---```
---@return integer fd  a file descriptor; raises if there is no free one
function Box:fd() end

---Wakes the waiters whose rounds are done, and calls the clients' callbacks. Call it whenever the
---descriptor is readable.
---```lua
---local function on_readable(box)
---    return box:drain() > 0          -- false: nobody waits, it need not be polled
---end
---```
---@param let_run? fun()  for loops where `wake` only schedules the waiter: returns when those that
---were woken have run; the library sends what they start together. Called if there are several.
---@return integer waiting  waiters left; 0: the descriptor need not be polled for now
function Box:drain(let_run) end

return loop
