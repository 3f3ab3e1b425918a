---@meta redlock.resource

-- Part of types.lua: data in Redis that refuses late writers.

---Resources in Redis that refuse late writers. A holder that is paused past its lease may write
---afterwards; no lock can prevent that, but the data can. Each resource has a mark beside it, the
---largest fencing token it has seen. Each operation is one script, which refuses smaller tokens,
---raises the mark and runs the command. Use one lock for each resource.
---```lua
---local stock = redlock.resource.new("stock:7", function(...) return conn:call(...) end)
---local ok, token = client:getFencedLock("stock"):tryLock(5)
---assert(ok and stock:set(token, 10))
---local read, n = stock:get(token)            -- from here on older holders are refused
---assert(read and stock:set(token, n - 1))
---```
---@class redlock.resource
---@field scripts redlock.ResourceScripts  the scripts as sent, for other languages
local resource = {}

---Makes a resource that is written under fencing tokens. No I/O.
---```lua
---local stock = redlock.resource.new("stock:7", function(...) return conn:call(...) end)
---assert(stock:set(token, 10))
---```
---@param name string  its key, or what its keys share; not the key of a lock on that server
---@param send_words? fun(...: string): any, any  sends a command; default: only `words` works
---@param opts? redlock.ResourceOptions  whether marks expire
---@return redlock.Resource resource  for use with tokens
function resource.new(name, send_words, opts) end

---Makes a resource whose writers check by a random value that it is still theirs; for locks without
---tokens. This is weaker: the resource belongs to the last claimer, so a holder that was paused
---before its `claim` takes it from a newer one, whose writes then fail. No update is lost.
---```lua
---local stock = redlock.resource.owned("stock:7", function(...) return conn:call(...) end)
---local mine = assert(stock:claim())
---assert(stock:set(mine, 10))
---```
---@param name string  its key, or what its keys share; not the key of a lock on that server
---@param send_words? fun(...: string): any, any  sends a command; default: only `words` works
---@param opts? redlock.ResourceOptions  whether claims expire
---@return redlock.OwnedResource resource  for use with claimed values
function resource.owned(name, send_words, opts) end

---Reads the reply that a Redis client returned for one of the scripts.
---```lua
---local ok, why = redlock.resource.read(conn:call(unpack(stock:words(token, "SET", "stock:7", 9))))
---assert(ok, why)
---```
---@param reply any  what the client returned
---@param err? any  what it returned after nil or false
---@return true|nil ok  the command has run
---@return any reply  of the command, nil: null; after nil: "stale", or the error
---@return integer|nil largest  with "stale": the largest token seen; nil for claimed values
function resource.read(reply, err) end

---Makes a value for `claim`: 20 random bytes in hex.
---```lua
---assert(#redlock.resource.value() == 40)
---```
---@return string value  40 characters
function resource.value() end

---How long marks and claims are kept.
---@class (exact) redlock.ResourceOptions
---@field keep? number  seconds without use, longer than any holder can be late; default: for ever

---The scripts of resources, as sent. The head of each file explains its KEYS and ARGV.
---@class (exact) redlock.ResourceScripts
---@field token string  runs a command under a token
---@field owner string  runs a command under a claimed value
---@field claim string  gives the resource to a new value

-- In the examples `stock` is a resource of the first kind and `token` the token of a hold; `owned`
-- is one of the second kind.

---What a resource is written under.
---@alias redlock.Right
---| integer # the token of a hold
---| string # a token; of an owned resource its value

---The methods of both kinds of resources. Their first argument is the hold's token, or for an owned
---resource the claimed value. `append` and `delete` run APPEND and DEL on the resource's own key.
---`tostring` of it is for people: "resource(stock:7)".
---@class redlock.AnyResource
---@field append fun(self, right: redlock.Right, value: string|number): true?, any, integer?  `call`
---@field delete fun(self, right: redlock.Right): true?, any, integer?  `call` of DEL
local AnyResource = {}

---Runs a command, unless the resource has seen a larger token. Not for commands that block.
---```lua
---assert(stock:call(token, "HINCRBY", "stock:7:log", "sold", 1))
---```
---@param right integer|string  the token; for an owned resource the value
---@param command? string  such as "HSET"; nil: only the check, as `fence_in`
---@param keys? string|string[]  its key, or a list of its keys
---@param ... string|number  its further arguments
---@return true|nil ok  done; after an error (nil) it may have run, or may still run
---@return any reply  of the command; or "stale": refused, nothing was done; or the error
---@return integer|nil largest  with "stale": the largest token seen; nil for claimed values
function AnyResource:call(right, command, keys, ...) end

---Runs your own script under the token, for work that takes several commands.
---```lua
---local body = "return {1, redis.call('incrby', KEYS[2], ARGV[3])}"
---assert(stock:eval(token, body, { "stock:7:sold" }, { 2 }))
---```
---@param right integer|string  the token; for an owned resource the value
---@param body string  KEYS[2...] are `keys`, ARGV[3...] are `args`; it returns {1, reply}
---@param keys string|string[]  its key, or a list of its keys
---@param args? (string|number)[]  its arguments
---@return true|nil ok  as for `call`
---@return any reply  as for `call`
---@return integer|nil largest  as for `call`
function AnyResource:eval(right, body, keys, args) end

---Reads the resource's own key, and raises the mark: otherwise an older holder could write between
---this read and the write that follows from it.
---```lua
---local ok, value = stock:get(token)
---assert(ok and value == nil)          -- there is none
---```
---@param right integer|string  the token; for an owned resource the value
---@return true|nil ok  as for `call`
---@return any value  a string; nil: no such key; or as for `call`
---@return integer|nil largest  as for `call`
function AnyResource:get(right) end

---Writes the resource's own key.
---```lua
---assert(stock:set(token, "ten", 60))
---local ok, why, largest = stock:set(1, "nine")        -- a late writer
---assert(not ok and why == "stale" and largest == token)
---```
---@param right integer|string  the token; for an owned resource the value
---@param value string|number  the new value
---@param ttl? number  seconds until the data, not the mark, expires; default: never
---@return true|nil ok  as for `call`
---@return any reply  as for `call`
---@return integer|nil largest  as for `call`
function AnyResource:set(right, value, ttl) end

---Returns the command that `call` sends, as a list of words, for pipelines, MULTI and other
---clients. `resource.read` reads its reply.
---```lua
---local words = stock:words(token, "SET", "stock:7", 9)
---assert(words[1] == "EVAL")
---```
---@param right integer|string  the token; for an owned resource the value
---@param command? string  such as "HSET"; nil: only the check, as `fence_in`
---@param keys? string|string[]  its key, or a list of its keys
---@param ... string|number  its further arguments
---@return string[] words  "EVAL", the script, the number of keys, ...
function AnyResource:words(right, command, keys, ...) end

---A resource for use with fencing tokens, from `redlock.resource.new`.
---@class redlock.Resource: redlock.AnyResource
local Resource = {}

---Raises the mark and does nothing else: the resource refuses older holders from then on. Call it
---first in each new hold, unless a `get` comes first anyway; with several resources, fence in all
---before you read any.
---```lua
---assert(stock:fence_in(token))
---```
---@param token integer|string  of the hold
---@return true|nil ok  as for `call`
---@return any reply  as for `call`
---@return integer|nil largest  as for `call`
function Resource:fence_in(token) end

---A resource for use with claimed values, from `redlock.resource.owned`.
---@class redlock.OwnedResource: redlock.AnyResource
local OwnedResource = {}

---Claims the resource for this holder, whoever had it. Call it first after taking the lock.
---```lua
---local mine = assert(owned:claim())
---assert(owned:set(mine, 10))
---```
---@param value? string  unique; default: a random one
---@return string|nil value  for `get`, `set` and so on
---@return any err  from the Redis client
function OwnedResource:claim(value) end

return resource
