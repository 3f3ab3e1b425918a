---@meta redlock.host.loop

-- Part of types.lua: hosts, which know how to wait.

---Hosts for event loops of your own. Ready ones: `redlock.host.luv`, `redlock.host.cqueues`; plain
---LuaJIT and nginx find theirs. See examples/own_loop.lua.
---@class redlock.host.loop
local loop = {}

---Makes a host of an event loop.
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
---@param def redlock.LoopDefinition  what the loop can do
---@return redlock.Host host  for the option `host`
function loop.new(def) end

---An event loop, as the library sees it.
---@class (exact) redlock.LoopDefinition
---@field name string  a word
---@field suspend fun(waiter: table)  suspends the running coroutine until `wake`; may return early
---@field wake fun(waiter: table)  makes `suspend` return; may be called before it
---@field listen fun(box: redlock.Box)  polls `box:fd` from now on, and calls `box:drain`
---@field owner? fun(): any  who is asking; default: the running coroutine
---@field alive? fun(owner: any): boolean  whether it can still ask; default: its coroutine can
---@field can_wait? fun(): boolean  whether the caller may be suspended now; default: always
---@field spawn? fun(fn: function)  runs it in a coroutine that may be suspended; default: a new one
---@field defer? fun(fn: function)  the same, soon, for callbacks of the user; default: `spawn`
---@field remind? fun(s: number, fn: function)  calls it in s seconds; keeps no loop running
---@field log? fun(text: string)  default: to stderr
---@field warn? fun(text: string)  is told what becomes of servers if `on_event` is "auto"

---Who knows how to wait: a module such as `redlock.host.luv`, or what `redlock.host.loop` made.
---@class redlock.Host
---@field name string  a word
---@field owner fun(): any  who is asking
---@field alive fun(owner: any): boolean  whether an owner can still ask
---@field can_wait fun(): boolean  whether the caller may wait
---@field concurrent fun(client: redlock.Client): boolean  whether others go on meanwhile
---@field wait fun(round: any, ...): integer  for the library
---@field defer fun(fn: function)  runs a callback of the user
---@field log fun(text: string)  where the library writes to

---Where the rounds that are done are found. For `listen` of a host.
---@class redlock.Box
local Box = {}

---The descriptor that is to be polled for reading. Not to be read or closed.
---```lua
---local function listen(box)
---    my_loop.watch(box:fd(), function() return box:drain() > 0 end)
---end
---```
---@return integer fd  raises when there is none left
function Box:fd() end

---Wakes whose rounds are done, and tells the clients of what else happened; to be called whenever
---the descriptor can be read.
---```lua
---local function on_readable(box)
---    return box:drain() > 0          -- false: nobody waits, it need not be polled
---end
---```
---@param let_run? fun()  where `wake` does not run who waits at once: returns when those have run
---who were woken; what they start is sent together then. Called when there are several.
---@return integer waiting  how many wait still; 0: the descriptor need not be polled for now
function Box:drain(let_run) end

return loop
