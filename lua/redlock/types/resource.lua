---@meta redlock.resource

-- Part of types.lua: data in Redis that refuses late writers.

---Resources in Redis that refuse late writers: a holder who is paused past its lease may write
---afterwards, which no lock can prevent and the data can. Beside each resource stands its mark, the
---largest fencing token it has seen. Whatever is done under a token is one script: smaller tokens
---are refused, the mark is raised, the command runs. One resource, one lock.
---```lua
---local stock = redlock.resource.new("stock:7", function(...) return conn:call(...) end)
---local ok, token = client:getFencedLock("stock"):tryLock(5)
---assert(ok and stock:set(token, 10))
---local read, n = stock:get(token)            -- from here on older holders are refused
---assert(read and stock:set(token, n - 1))
---```
---@class redlock.resource
---@field scripts redlock.ResourceScripts  the scripts as they are sent, for other languages
local resource = {}

---A resource that is written under fencing tokens. No I/O.
---```lua
---local stock = redlock.resource.new("stock:7", function(...) return conn:call(...) end)
---assert(stock:set(token, 10))
---```
---@param name string  its key, or what its keys share; not the key of a lock on that server
---@param send_words? fun(...: string): any, any  sends a command; default: for `words` only
---@param opts? redlock.ResourceOptions  whether marks end
---@return redlock.Resource resource  under tokens
function resource.new(name, send_words, opts) end

---A resource whose writers check that it is still theirs, by a random value; for locks without
---tokens. Weaker: it belongs to whoever claimed it last, and a holder who was paused before its
---`claim` takes it from a newer one, whose writes are refused then. No update is lost.
---```lua
---local stock = redlock.resource.owned("stock:7", function(...) return conn:call(...) end)
---local mine = assert(stock:claim())
---assert(stock:set(mine, 10))
---```
---@param name string  its key, or what its keys share; not the key of a lock on that server
---@param send_words? fun(...: string): any, any  sends a command; default: for `words` only
---@param opts? redlock.ResourceOptions  whether claims end
---@return redlock.OwnedResource resource  under claimed values
function resource.owned(name, send_words, opts) end

---Reads what a client returned for one of the scripts.
---```lua
---local ok, why = redlock.resource.read(conn:call(unpack(stock:words(token, "SET", "stock:7", 9))))
---assert(ok, why)
---```
---@param reply any  what the client returned
---@param err? any  what it returned behind nil or false
---@return true|nil ok  the command was run
---@return any reply  of the command, nil: it was null; with nil: "stale", or the error
---@return integer|nil largest  with "stale": the largest token seen; none for values
function resource.read(reply, err) end

---A value for `claim`: 20 random bytes in hex.
---```lua
---assert(#redlock.resource.value() == 40)
---```
---@return string value  40 characters
function resource.value() end

---How long marks and claims are kept.
---@class (exact) redlock.ResourceOptions
---@field keep? number  seconds without use, longer than any holder can be late; default: for ever

---The scripts of resources, as they are sent. Their KEYS and ARGV: at the head of their files.
---@class (exact) redlock.ResourceScripts
---@field token string  runs a command under a token
---@field owner string  runs a command under a claimed value
---@field claim string  makes a value the owner's

-- In the examples `stock` is a resource of the first kind with the token of a hold, `token`;
-- `owned` is one of the second kind.

---What the resources of both kinds do. The first argument is the token of the hold; of an owned
---resource the value that was claimed. `tostring` of it is for people: "resource(stock:7)".
---@class redlock.AnyResource
local AnyResource = {}

---Runs a command, unless a larger token was seen. Not for commands that block.
---```lua
---assert(stock:call(token, "HINCRBY", "stock:7:log", "sold", 1))
---```
---@param right integer|string  the token; of an owned resource the value
---@param command? string  such as "HSET"; none: only the check, as `fence_in`
---@param keys? string|string[]  its key, or a list of its keys
---@param ... string|number  its further arguments
---@return true|nil ok  done; without a clear answer (nil) it may have been, or be later
---@return any reply  of the command; or "stale": refused, nothing was done; or the error
---@return integer|nil largest  with "stale": the largest token seen; none for values
function AnyResource:call(right, command, keys, ...) end

---Runs a script of your own under the token, for what takes several commands.
---```lua
---local body = "return {1, redis.call('incrby', KEYS[2], ARGV[3])}"
---assert(stock:eval(token, body, { "stock:7:sold" }, { 2 }))
---```
---@param right integer|string  the token; of an owned resource the value
---@param body string  KEYS[2] and on are `keys`, ARGV[3] and on are `args`; returns {1, reply}
---@param keys string|string[]  its key, or a list of its keys
---@param args? (string|number)[]  its arguments
---@return true|nil ok  as of `call`
---@return any reply  as of `call`
---@return integer|nil largest  as of `call`
function AnyResource:eval(right, body, keys, args) end

---Reads the key that is named as the resource. Raises the mark, too: otherwise an older holder
---could write between this and what is written because of it.
---```lua
---local ok, value = stock:get(token)
---assert(ok and value == nil)          -- there is none
---```
---@param right integer|string  the token; of an owned resource the value
---@return true|nil ok  as of `call`
---@return any value  a string; nil: there is none; or as of `call`
---@return integer|nil largest  as of `call`
function AnyResource:get(right) end

---Writes the key that is named as the resource.
---```lua
---assert(stock:set(token, "ten", 60))
---local ok, why, largest = stock:set(1, "nine")        -- a late writer
---assert(not ok and why == "stale" and largest == token)
---```
---@param right integer|string  the token; of an owned resource the value
---@param value string|number  what is written
---@param ttl? number  seconds until the data, not the mark, ends; default: it stays
---@return true|nil ok  as of `call`
---@return any reply  as of `call`
---@return integer|nil largest  as of `call`
function AnyResource:set(right, value, ttl) end

---Appends to the key that is named as the resource.
---```lua
---local ok, length = stock:append(token, "more")
---assert(ok and length == 4)
---```
---@param right integer|string  the token; of an owned resource the value
---@param value string|number  what is appended
---@return true|nil ok  as of `call`
---@return any length  the new one, bytes; or as of `call`
---@return integer|nil largest  as of `call`
function AnyResource:append(right, value) end

---Deletes the key that is named as the resource; the mark stays.
---```lua
---local ok, n = stock:delete(token)
---assert(ok and n == 0)                -- there was none
---```
---@param right integer|string  the token; of an owned resource the value
---@return true|nil ok  as of `call`
---@return any n  1, or 0: there was none; or as of `call`
---@return integer|nil largest  as of `call`
function AnyResource:delete(right) end

---The words of the command that does it, for pipelines, MULTI and other clients; `resource.read`
---reads its reply.
---```lua
---local words = stock:words(token, "SET", "stock:7", 9)
---assert(words[1] == "EVAL")
---```
---@param right integer|string  the token; of an owned resource the value
---@param command? string  such as "HSET"; none: only the check, as `fence_in`
---@param keys? string|string[]  its key, or a list of its keys
---@param ... string|number  its further arguments
---@return string[] words  "EVAL", the script, the number of keys, ...
function AnyResource:words(right, command, keys, ...) end

---A resource under fencing tokens, from `redlock.resource.new`.
---@class redlock.Resource: redlock.AnyResource
local Resource = {}

---Raises the mark and does nothing else: older holders are refused from here on. A new holder's
---first act, unless that is a `get` anyway; of several resources all are fenced in before any is
---read.
---```lua
---assert(stock:fence_in(token))
---```
---@param token integer|string  of the hold
---@return true|nil ok  as of `call`
---@return any reply  as of `call`
---@return integer|nil largest  as of `call`
function Resource:fence_in(token) end

---A resource under claimed values, from `redlock.resource.owned`.
---@class redlock.OwnedResource: redlock.AnyResource
local OwnedResource = {}

---Makes the resource ours, whoever had it: the first act of who has just got the lock.
---```lua
---local mine = assert(owned:claim())
---assert(owned:set(mine, 10))
---```
---@param value? string  that nobody else uses; default: a random one
---@return string|nil value  for `get`, `set` and so on
---@return any err  of the client
function OwnedResource:claim(value) end

return resource
