---@meta redlock.testing

-- Part of types.lua: specs of programs that lock.

---For specs of a program: a world with servers, clients and a clock, all inside this process. The
---library and its scripts are the real ones, the servers are a model that runs them; there is no
---redis-server, no socket and no thread, and two runs with one seed are the same. What real servers
---can and the model cannot raises.
---
---Time passes when somebody waits, or when the spec lets it: a call that waits, in the spec itself,
---lets the world go on until it returns. There is one world at a time; a new one ends the one
---before.
---```lua
---local world = redlock.testing.new { nodes = 3 }
---local lock = world:client():getLock "job"
---assert(lock:tryLock(0, 30))
---world:advance(31)
---assert(not lock:isValid())
---```
---@class redlock.testing
local testing = {}

---A new world, with servers that may vote at once.
---```lua
---local world = redlock.testing.new { nodes = 5, seed = 7, client = { lease = 10 } }
---assert(world:client():getLock("job"):tryLock())
---```
---@param opts? redlock.WorldOptions  what shall differ from the defaults
---@return redlock.World world  the world that there is from now on
function testing.new(opts) end

---@class (exact) redlock.WorldOptions
---@field nodes? integer|table  how many servers, 1 to 32, or their addresses; default: 3
---@field seed? integer  from 0; all chance comes from it; default: 1
---@field round_trip? number  seconds between clients and servers; default: 0.0005
---@field client? table  options of all clients, as for `redlock.new`
---@field new_cluster? boolean  true: the servers are as new, and in quarantine

---@class (exact) redlock.StartOptions
---@field forgotten? boolean  true: the server has lost its memory

---Servers, clients, what is between them, and time. `tostring(world)` is for people: "world(3
---servers, 31.0 s)".
---@class redlock.World
---@field nodes table  the addresses of the servers
---@field redlock table  the library in the world, for `world.redlock.new { nodes = world.nodes }`
local World = {}

---A client of all servers, on a machine of its own; up to 32 that are used.
---```lua
---local a, b = world:client(), world:client { lease = 5 }
---assert(a:getLock("job"):lock() and not b:getLock("job"):tryLock())
---```
---@param opts? table  as for `redlock.new`; `nodes`: those of the world
---@return redlock.Client client  a client, not connected yet
function World:client(opts) end

---Lets so many seconds pass, with all that happens in them; a coroutine of the world sleeps.
---```lua
---world:advance(3600)
---```
---@param seconds number  seconds, from 0
---@return redlock.World world  the same
function World:advance(seconds) end

---How late it is.
---```lua
---assert(world:now() < 1)
---```
---@return number now  seconds since the world began
function World:now() end

---Starts a coroutine, which runs until it waits. An error in it is raised by whoever lets time
---pass.
---```lua
---local task = world:spawn(function(name)
---    return world:client():getLock(name):tryLock(5)
---end, "job")
---assert(task:join())
---```
---@param fn function  what it does
---@param ... any  what fn is given
---@return redlock.Task task  to wait for it
function World:spawn(fn, ...) end

---Kills the process of a server: its connections break.
---```lua
---world:kill(1)
---```
---@param i integer  from 1
---@return redlock.World world  the same
function World:kill(i) end

---Starts a server again that was killed, with what it had.
---```lua
---world:kill(1)
---world:start(1, { forgotten = true })
---```
---@param i integer  from 1
---@param opts? redlock.StartOptions  whether it has lost its memory
---@return redlock.World world  the same
function World:start(i, opts) end

---Lets a server stand still, with its connections.
---```lua
---world:freeze(1)
---```
---@param i integer  from 1
---@return redlock.World world  the same
function World:freeze(i) end

---Lets it go on, with what it was asked for meanwhile.
---```lua
---world:freeze(1)
---world:thaw(1)
---```
---@param i integer  from 1
---@return redlock.World world  the same
function World:thaw(i) end

---Lets nothing through between a server and all clients; nobody is told.
---```lua
---world:cut(1)
---```
---@param i integer  from 1
---@return redlock.World world  the same
function World:cut(i) end

---The network is well again; connections from before are broken.
---```lua
---world:cut(1)
---world:mend(1)
---```
---@param i integer  from 1
---@return redlock.World world  the same
function World:mend(i) end

---Sets the clock of a server forward, or back.
---```lua
---world:step_clock(1, -40)
---```
---@param i integer  from 1
---@param seconds number  seconds, below 0: back
---@return redlock.World world  the same
function World:step_clock(i, seconds) end

---The process of a client stands still, as for a collector; the caller waits for that.
---```lua
---local client = world:client()
---local lock = client:getLock "job"
---assert(lock:tryLock(0, 10))
---world:stop(client, 11)
---assert(not lock:isValid())
---```
---@param client redlock.Client  one of the world that has been used
---@param seconds number  seconds, from 0
---@return redlock.World world  the same
function World:stop(client, seconds) end

---The process of a client dies: what it held stays on the servers until its lease ends. Nobody who
---waits with it goes on; its methods say `closed`.
---```lua
---local client = world:client()
---assert(client:getLock("job"):tryLock(0, 10))
---world:crash(client)
---assert(world:client():getLock("job"):tryLock(20))
---```
---@param client redlock.Client  one of the world that has been used
---@return redlock.World world  the same
function World:crash(client) end

---Runs a command on a server, at once. Raises for what the model cannot do.
---```lua
---assert(world:call(1, "SET", "key", 7) == "OK" and world:call(1, "GET", "key") == "7")
---```
---@param i integer  from 1
---@param ... string|number  the words of the command
---@return any reply  nil: null
---@return string|nil err  the text of an error
function World:call(i, ...) end

---Ends the world, and closes its clients.
---```lua
---world:close()
---```
---@return redlock.World world  the same
function World:close() end

---A coroutine of a world.
---@class redlock.Task
local Task = {}

---Whether its function has returned.
---```lua
---assert(world:spawn(function() end):isDone())
---```
---@return boolean done  whether join() would return at once
function Task:isDone() end

---Lets time pass until its function has returned.
---```lua
---local task = world:spawn(function()
---    world:advance(5)
---    return "done"
---end)
---assert(task:join(1) == nil and task:join() == "done")
---```
---@param seconds? number  seconds at most; default: as long as it takes
---@return any ...  what it returned; nothing: it has not, in so long a time
function Task:join(seconds) end

return testing
