---@meta redlock.metrics

-- Part of types.lua: counters of locks.

---Counts the outcomes of lock calls, and how long they wait and hold, for Prometheus. It counts
---names in groups, since there can be any number of names. Clients with other metrics, or none,
---have connections of their own.
---```lua
---local metrics = require("redlock.metrics").new()
---local c = redlock.new { nodes = servers, metrics = metrics }
---assert(c:getLock("invoice:42"):tryLock(5))
---assert(metrics:text():find('acquires_total{group="invoice",outcome="acquired"} 1', 1, true))
---```
---@class redlock.metrics
local metrics = {}

---Makes metrics for the option `metrics` of one or more clients. Raises on bad options.
---```lua
---local metrics = require("redlock.metrics").new {
---    group = function(name) return name:match "^%a+" end,
---}
---```
---@param opts? redlock.MetricsOptions  how to group names, and where workers add up
---@return redlock.Metrics metrics  all zero
function metrics.new(opts) end

---How to group names, and where workers add up.
---@class (exact) redlock.MetricsOptions
---@field group? fun(name: string): string  a name's group; default: the part before its first colon
---@field dict? string  a `lua_shared_dict` where nginx's workers add up their counts

---The counts of this process, or of all workers. At most 64 groups: the last one, `other`, takes
---all further ones, and names for which the function returns no text. `tostring` is for people.
---@class redlock.Metrics
local Metrics = {}

---Returns the counts as text; with a `dict`, those of all workers. With a `dict` it also lets the
---worker's light threads run in between. Elections are gauges: the term of each candidate of these
---processes that leads now.
---```lua
---local metrics = require("redlock.metrics").new()
---local c = redlock.new { nodes = servers, metrics = metrics }
---local term = assert(c:getElection("scheduler", { id = "web-1" }):campaign(5))
---local leads = 'redlock_leader_term{election="scheduler",leader="web-1"} %d'
---assert(metrics:text():find(leads:format(term), 1, true))
---```
---```lua
---local metrics = require("redlock.metrics").new()
---assert(metrics:text():find("redlock_clients 0", 1, true))
---assert(metrics:text("openmetrics"):find "# EOF\n$")
---```
---@param how? "prometheus"|"openmetrics"  the format; default: "prometheus"
---@return string text  ends with a line break
function Metrics:text(how) end

---Answers a request in nginx, in the format that it asks for. For `content_by_lua`; raises outside
---of nginx.
---```lua
---local metrics = require("redlock.metrics").new()
---local served = pcall(metrics.serve, metrics)
---assert(served == (ngx ~= nil))
---```
---@return nil nothing  it writes the response
function Metrics:serve() end

---Publishes once a second from now on. For `init_worker_by_lua`. Without a `dict` it does nothing.
---```lua
---assert(require("redlock.metrics").new():start())
---```
---@return true|nil ok  the timer runs, or there is nothing to do
---@return string|nil err  why no timer runs
function Metrics:start() end

---Adds what this worker has counted since the last time to the sums of all workers, and stores its
---current values. Without a `dict` it does nothing.
---```lua
---require("redlock.metrics").new():publish()
---```
---@return nil nothing  what does not fit into the dictionary is added later
function Metrics:publish() end

return metrics
