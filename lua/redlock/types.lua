---@meta redlock

-- The reference of the library, for lua-language-server (LuaCATS) and `make docs`; its other parts
-- are types/*.lua. The library never loads these files. Specs compare them with the code, and run
-- the examples.

---Distributed locks on N independent Redis servers, or on one.
---
---Durations are in seconds and may be fractions. A failure at run time returns `nil` and a
---`redlock.Error`; a mistake of the programmer raises a text that names the argument, at the
---caller's line. A method that asks the servers waits for them as the host does:
---it blocks the thread in plain LuaJIT, and only the coroutine or the request elsewhere. Where
---such a call fails, its codes are listed; each can also fail with `closed`, `config`, `phase`,
---`nomem` and, in a future, `cancelled`.
---```lua
---local redlock = require "redlock"
---local client = redlock.from_environment()
---```
---@class redlock
---@field _VERSION string  the version of the library, such as "0.1.0"
---@field resource redlock.resource  resources in Redis that refuse late writers
---@field testing redlock.testing  worlds for specs of programs
local redlock = {}

---Makes a client of N servers. It does no I/O and is safe in `init_by_lua`: each process connects
---at first use. Raises on bad options, naming them.
---```lua
---local client = redlock.new { nodes = "redis://127.0.0.1", lease = 20, prefix = "app:" }
---```
---@param opts redlock.Options  the servers, and options that differ from the defaults
---@return redlock.Client client  not connected yet
function redlock.new(opts) end

---Makes a client with the settings of the command `redlock`. The servers are in the environment
---variable `REDLOCK_NODES`; likewise `cluster`, user, passwords and files of TLS. A file may have
---these and all other options, in lines `option = value`; paths may be relative to its folder. It
---is the file that `REDLOCK_CONFIG` names, else `redlock.conf` in `XDG_CONFIG_HOME` or `~/.config`,
---else `/etc/redlock.conf`. A program with raised privileges (setuid, file capabilities) ignores
---`XDG_CONFIG_HOME` and `HOME`. The event `configured`, and `source` of `client:check()`, say what
---was used. Raises if there are no servers, on bad settings, and on a variable that names another
---option.
---
---In nginx, call it in `init_by_lua`. Workers have the variable only if nginx.conf has the line
---`env REDLOCK_NODES;`.
---```lua
---local client = redlock.from_environment()
---local short = redlock.from_environment { lease = 20 }
---```
---@param opts? redlock.Options|table  options that win over these settings; `nodes` may be left out
---@return redlock.Client client  not connected yet
function redlock.from_environment(opts) end

---Defines a primitive: a kind of lock of your own, for `client:get`. Raises on a bad definition.
---```lua
---local slot = redlock.primitive {
---    name = "slot",
---    acquire = "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
---    release = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0",
---}
---assert(client:get(slot, "a"):tryLock(1, 10))
---```
---@param def redlock.PrimitiveDefinition  scripts, and functions for their arguments
---@return redlock.Primitive primitive  for `client:get`
function redlock.primitive(def) end

---Waits for all futures in a list.
---```lua
---local futures = {}
---for i = 1, 3 do
---    futures[i] = client:getLock("part " .. i):tryLockAsync(5)
---end
---assert(redlock.wait_all(futures, 10))
---```
---@param list redlock.Future[]  futures of any clients
---@param timeout? number  seconds; default: until all are done
---@return true|nil done  all have finished
---@return redlock.Error err  timeout: the calls continue; phase
function redlock.wait_all(list, timeout) end

---Says whether a value is an error object of this library.
---```lua
---local ok, err = lock:unlock()
---assert(not ok and redlock.is_error(err) and err.code == "not_held")
---```
---@param value any  what a call returned, or raised
---@return boolean is_error  true: it is one
function redlock.is_error(value) end

-- ---- options ---------------------------------------------------------------------

---The options of `redlock.new`. Only `nodes` is required.
---```lua
---local client = redlock.new {
---    nodes = { "redis://127.0.0.1:6379", "rediss://app:secret@127.0.0.1:6380/0",
---        { host = "127.0.0.1", port = 6381, db = 2, password_file = "/run/secrets/redis" } },
---    lease = 20, patience = 3, on_event = function(e) print(e.type) end,
---}
---```
---@class (exact) redlock.Options
---@field nodes string|(string|redlock.Node)[]  1 to 32 servers: URIs or tables; or URIs in a text
---@field max_lease? number  seconds; longer leases are refused; equal in all clients (default 60)
---@field lock_delay? number  seconds a name stays closed after its holder is lost (default 0)
---@field lease? number  seconds; the lease of locks that are given none (default 30)
---@field timeout? number  seconds to wait for one server's answer (default 0.25)
---@field connect_timeout? number  seconds to resolve the name, connect and shake hands (default 1)
---@field max_hold? number|false  seconds the watchdog renews a lock; false: no limit (default 3600)
---@field fallback? number  seconds between attempts that no message wakes, +- half (default 1)
---@field patience? number  seconds in a row without a majority before a wait ends (default 10)
---@field drift_factor? number  no unit: how much faster a server's clock may run (default 0.01)
---@field prefix? string  put before names; the same in all programs that share locks (default "")
---@field cluster? string|false  name of these servers; the same in all programs (default false)
---@field label? string|boolean  the holder's name; true: host, process, program (default true)
---@field on_event? "auto"|false|fun(e: redlock.Event)  "auto": to nginx's log (default "auto")
---@field metrics? redlock.Metrics|false  counts for Prometheus: `redlock.metrics` (default false)
---@field handover? integer  hand-overs in a row within the process; 0: none (default 16)
---@field max_waiting? integer  calls that may wait in the process, for all names (default 10000)
---@field margin? integer  servers needed beyond a majority to acquire (default 0)
---@field min_validity? number  seconds; a lock must have this much validity (default 0)
---@field signals? redlock.Signal[]|false  plain LuaJIT: these release all locks (default false)
---@field host? redlock.Host|false  the event loop; false: found by itself (default false)
---@field restart_guard? boolean|"auto"  no vote after a loss; "auto": if several (default "auto")
---@field behind_proxy? boolean  servers may restart while connections to them stay (default false)
---@field user? string|false  for nodes that have no password of their own (default false)
---@field password? false|string|fun(): string, string?  or a function (default false)
---@field password_file? string|false  file whose first line is the password (default false)
---@field password_env? string|false  environment variable that holds the password (default false)
---@field password_refresh? number  seconds to use a password function's result (default 300)
---@field ca_file? string|false  PEM file: the CAs to trust; false: the system's (default false)
---@field cert_file? string|false  PEM file with client certificate and chain (default false)
---@field key_file? string|false  PEM file with the key of that certificate (default false)
---@field tls_verify? boolean  false: accept any certificate (default true)

---An address of one server, as a table: `host` or `path` is needed.
---```lua
---redlock.new { nodes = { { host = "redis-1.example.org", port = 6380, db = 2 } } }
---redlock.new { nodes = { { path = "/run/redis.sock", password = "secret" } } }
---```
---@class (exact) redlock.Node
---@field host? string  name or IP address
---@field port? integer  default 6379
---@field path? string  a unix socket, in place of host and port
---@field user? string  default: the default user
---@field password? string|fun(): string, string?  or a function that returns it, and a user name
---@field password_file? string  a file whose first line is the password
---@field password_env? string  an environment variable with the password
---@field db? integer  number of the database; default 0
---@field tls? boolean  true: TLS
---@field server_name? string  the name expected in the certificate; default: host

---A signal that ends a process, unless the process catches it.
---@alias redlock.Signal
---| "HUP" # the terminal was closed
---| "INT" # Ctrl-C
---| "QUIT" # Ctrl-\
---| "USR1" # for the program's own use
---| "USR2" # for the program's own use
---| "TERM" # from systemd, `docker stop`, `kill`

-- ---- errors ----------------------------------------------------------------------

---Why a call failed.
---@alias redlock.Code
---| "held" # another owner holds it on too many servers
---| "no_quorum" # no majority of the servers answered or may vote: see `nodes`
---| "expired" # the lease ran out, or would have during the call; `unlock`: before it
---| "lost" # the lease has ended, or a majority no longer knows the hold
---| "not_held" # this owner does not hold it
---| "not_found" # a latch was not made, or too many servers have forgotten it
---| "unknown" # no majority answered a release: what is left ends with its lease
---| "cancelled" # `future:cancel` ended the call
---| "closed" # the client is closed, or the nginx worker of a waiting timer exits
---| "config" # a setting, a file or a text is wrong: the message names it
---| "phase" # the caller cannot wait here, for example in nginx's log phase
---| "unsupported" # the primitive has no script for it
---| "not_a_lock" # its key holds another program's data on too many servers
---| "deadlock" # this thread, or this owner in another way, holds it, and cannot release it now
---| "overload" # `max_waiting` callers already wait in this process
---| "timeout" # futures did not finish in time, and continue; or a latch did not open in time
---| "nomem" # no memory, thread or file descriptor was left

---Why one server gave no vote.
---@alias redlock.NodeCode
---| "ok" # it answered: see `vote`
---| "pending" # not asked, or its answer came after the decision
---| "timeout" # no answer, or no connection, in time
---| "refused" # the connection failed or broke
---| "dns" # the host name was not found
---| "tls" # the handshake failed; the message says why
---| "auth" # user or password is wrong or missing
---| "noperm" # this user lacks an ACL rule
---| "readonly" # it accepts no writes: a replica, too few replicas, or it cannot save
---| "loading" # busy: it loads its data, or a long script runs
---| "oom" # `maxmemory` is reached
---| "script" # the script, or another command, failed
---| "protocol" # it did not answer like Redis
---| "guarded" # no vote for a while: it is in quarantine, or its clock was set
---| "unseeded" # it does not know which fencing tokens were issued
---| "not_a_lock" # the key is not a lock: it is data of a program that uses the same name
---| "config" # one server under two addresses, a replica, another `max_lease`
---| "unsupported" # it cannot do what was asked
---| "overload" # too many requests on its connection are unanswered
---| "nomem" # this process has no memory left for it

---Why a hold was lost.
---@alias redlock.LossReason
---| "expired" # no majority confirmed it in time
---| "taken" # a majority does not have it, and another owner has it on some servers
---| "forgotten" # a majority does not have it, and no other owner was seen: deleted, evicted
---| "max_hold" # the watchdog kept it for `max_hold` seconds
---| "suspended" # this process did not run for longer than the lease
---| "closed" # the client was closed, or this is the child of a fork

---The error that a call returns after `nil`. A table of plain values, for `cjson.encode` and the
---like; `tostring(err)`, `"..." .. err` and string methods read it as the text "redlock:
---code: message". `table.concat` needs `tostring(err)`.
---```lua
---local ok, err = client:getLock("a"):unlock()
---assert(not ok and err.code == "not_held" and err:find "not held by this owner")
---print("cannot unlock: " .. err)
---```
---@class (exact) redlock.Error: string
---@field code redlock.Code  why the call failed
---@field message string  a sentence, in printable ASCII
---@field nodes? redlock.NodeAnswer[]  each server's answer, if the call asked the servers
---@field waited? number  seconds spent in the call
---@field reason? redlock.LossReason  why the hold was lost, if the call failed for that
---@field holder? redlock.Holder  of `held`, or an import: who has it, if a majority agrees
---@field done? boolean  of `once`, with `held`: true: the job has run; false: a run is under way
---@operator concat(any): string

---A lock's holder, by the label that it gave (the option `label`).
---@class (exact) redlock.Holder
---@field label? string  in printable ASCII; nil: the value has no label
---@field since? number  seconds since 1970, by the holder's clock
---@field remaining? number  seconds that a majority keeps it; nil: for a hold that was lost

---One server's part in an error.
---@class (exact) redlock.NodeAnswer
---@field node string  its address, without secrets
---@field code redlock.NodeCode  why it gave no vote; "ok"
---@field message string  a sentence
---@field why? string  the short name of the reason (rl_why in c/redlock.h): "memory_lost"
---@field vote? integer  with `ok`: 1 yes, 0 no, -1 another owner has it

return redlock
