---@meta redlock.testing

-- Part of types.lua: worlds, for specs of programs that use locks.

---For specs of your program: a world of servers, clients and a clock, all in this process. The
---library and its scripts are the real ones; a model of Redis runs them. There is no redis-server,
---socket or thread, and two runs with one seed are equal. What the model does not support raises.
---
---Time passes when a call waits, or when the spec lets it pass. When the spec itself waits, the
---world runs until that call returns. Only one world exists: a new one ends the previous one.
---```lua
---local world = redlock.testing.new { nodes = 3 }
---local lock = world:client():getLock "job"
---assert(lock:tryLock(0, 30))
---world:advance(31)
---assert(not lock:isValid())
---```
---@class redlock.testing
local testing = {}

---Makes a world whose servers may vote at once.
---```lua
---local world = redlock.testing.new { nodes = 5, seed = 7, client = { lease = 10 } }
---assert(world:client():getLock("job"):tryLock())
---```
---@param opts? redlock.WorldOptions  options that differ from the defaults
---@return redlock.World world  the current world from now on
function testing.new(opts) end

---@class (exact) redlock.WorldOptions
---@field nodes? integer|table  number of servers, 1 to 32, or their addresses; default: 3
---@field seed? integer  0 or more, for all random choices; default: 1
---@field round_trip? number  seconds between clients and servers; default: 0.0005
---@field client? table  options of all clients, as for `redlock.new`
---@field new_cluster? boolean  true: the servers are new, and in quarantine

---@class (exact) redlock.StartOptions
---@field forgotten? boolean  true: the server has lost its memory

---Servers, clients, the network between them, and time. `tostring(world)` is for people: "world(3
---servers, 31.0 s)".
---@class redlock.World
---@field nodes table  the addresses of the servers
---@field redlock table  the library in this world, for `world.redlock.new { nodes = world.nodes }`
local World = {}

---Makes a client of all servers, on its own machine. At most 32 clients can be used.
---```lua
---local a, b = world:client(), world:client { lease = 5 }
---assert(a:getLock("job"):lock() and not b:getLock("job"):tryLock())
---```
---@param opts? table  as for `redlock.new`; default of `nodes`: the world's
---@return redlock.Client client  not connected yet
function World:client(opts) end

---Lets time pass, with all that happens meanwhile. In a coroutine of the world it sleeps.
---```lua
---world:advance(3600)
---```
---@param seconds number  seconds, 0 or more
---@return redlock.World world  this world
function World:advance(seconds) end

---Returns the world's time.
---```lua
---assert(world:now() < 1)
---```
---@return number now  seconds since the world began
function World:now() end

---Starts a coroutine, which runs until it waits. The call that lets time pass raises its errors.
---```lua
---local task = world:spawn(function(name)
---    return world:client():getLock(name):tryLock(5)
---end, "job")
---assert(task:join())
---```
---@param fn function  its function
---@param ... any  the arguments of fn
---@return redlock.Task task  to wait for it
function World:spawn(fn, ...) end

---Kills a server's process; its connections break.
---```lua
---world:kill(1)
---```
---@param i integer  the server, from 1
---@return redlock.World world  this world
function World:kill(i) end

---Starts a killed server again, with its data.
---```lua
---world:kill(1)
---world:start(1, { forgotten = true })
---```
---@param i integer  the server, from 1
---@param opts? redlock.StartOptions  whether it has lost its memory
---@return redlock.World world  this world
function World:start(i, opts) end

---Freezes a server; its connections stay open.
---```lua
---world:freeze(1)
---```
---@param i integer  the server, from 1
---@return redlock.World world  this world
function World:freeze(i) end

---Lets a frozen server continue, with the requests that arrived meanwhile.
---```lua
---world:freeze(1)
---world:thaw(1)
---```
---@param i integer  the server, from 1
---@return redlock.World world  this world
function World:thaw(i) end

---Blocks all traffic between a server and the clients, without closing connections.
---```lua
---world:cut(1)
---```
---@param i integer  the server, from 1
---@return redlock.World world  this world
function World:cut(i) end

---Ends a cut; older connections are broken.
---```lua
---world:cut(1)
---world:mend(1)
---```
---@param i integer  the server, from 1
---@return redlock.World world  this world
function World:mend(i) end

---Steps a server's clock.
---```lua
---world:step_clock(1, -40)
---```
---@param i integer  the server, from 1
---@param seconds number  seconds; negative: back
---@return redlock.World world  this world
function World:step_clock(i, seconds) end

---Stops a client's process, as a long garbage collection would. The call waits for that time.
---```lua
---local client = world:client()
---local lock = client:getLock "job"
---assert(lock:tryLock(0, 10))
---world:stop(client, 11)
---assert(not lock:isValid())
---```
---@param client redlock.Client  one of this world that has been used
---@param seconds number  seconds, 0 or more
---@return redlock.World world  this world
function World:stop(client, seconds) end

---Crashes a client's process. Its holds stay on the servers until their leases end, its waiting
---calls never return, and its methods fail with `closed`.
---```lua
---local client = world:client()
---assert(client:getLock("job"):tryLock(0, 10))
---world:crash(client)
---assert(world:client():getLock("job"):tryLock(20))
---```
---@param client redlock.Client  one of this world that has been used
---@return redlock.World world  this world
function World:crash(client) end

---Runs a command on a server at once. Raises if the model does not support it.
---```lua
---assert(world:call(1, "SET", "key", 7) == "OK" and world:call(1, "GET", "key") == "7")
---```
---@param i integer  the server, from 1
---@param ... string|number  the words of the command
---@return any reply  nil: null
---@return string|nil err  the text of an error
function World:call(i, ...) end

---Ends the world and closes its clients.
---```lua
---world:close()
---```
---@return redlock.World world  this world
function World:close() end

---A coroutine of a world.
---@class redlock.Task
local Task = {}

---Says whether its function has returned.
---```lua
---assert(world:spawn(function() end):isDone())
---```
---@return boolean done  true: `join` would return at once
function Task:isDone() end

---Lets time pass until its function has returned.
---```lua
---local task = world:spawn(function()
---    world:advance(5)
---    return "done"
---end)
---assert(task:join(1) == nil and task:join() == "done")
---```
---@param seconds? number  seconds at most; default: until it has returned
---@return any ...  the results of its function; nothing: the time ran out
function Task:join(seconds) end

return testing
