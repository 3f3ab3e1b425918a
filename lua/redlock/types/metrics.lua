---@meta redlock.metrics

-- Part of types.lua: what locks do, in numbers.

---Counts what becomes of locks, and for how long they are waited for and held, for Prometheus.
---Names are counted in groups, as there may be any number of them.
---```lua
---local metrics = require("redlock.metrics").new()
---local c = redlock.new { nodes = servers, metrics = metrics }
---assert(c:getLock("invoice:42"):tryLock(5))
---assert(metrics:text():find('acquires_total{group="invoice",outcome="acquired"} 1', 1, true))
---```
---@class redlock.metrics
local metrics = {}

---Metrics for the option `metrics` of one or several clients. Raises on bad options.
---```lua
---local metrics = require("redlock.metrics").new {
---    group = function(name) return name:match "^%a+" end,
---}
---```
---@param opts? redlock.MetricsOptions  how names are grouped, and where workers add up
---@return redlock.Metrics metrics  that have counted nothing yet
function metrics.new(opts) end

---How to count.
---@class (exact) redlock.MetricsOptions
---@field group? fun(name: string): string  of a name; default: what is before its first colon
---@field dict? string  a `lua_shared_dict`, where workers of nginx add up what they count

---What was counted, in this process or in all workers. 64 groups at most: the last one, `other`,
---has all further ones, and names for which the function gives no text. `tostring` is for people.
---@class redlock.Metrics
local Metrics = {}

---The numbers as text. With a `dict` those of all workers; then light threads of the worker have
---their turn in between.
---```lua
---local metrics = require("redlock.metrics").new()
---assert(metrics:text():find("redlock_clients 0", 1, true))
---assert(metrics:text("openmetrics"):find "# EOF\n$")
---```
---@param how? "prometheus"|"openmetrics"  the format; default: "prometheus"
---@return string text  with a line break at its end
function Metrics:text(how) end

---Answers the request of a worker of nginx, in the format that it asks for: for `content_by_lua`.
---Raises outside of nginx.
---```lua
---local metrics = require("redlock.metrics").new()
---local served = pcall(metrics.serve, metrics)
---assert(served == (ngx ~= nil))
---```
---@return nil nothing  what is written is the response
function Metrics:serve() end

---Publishes once a second from now on: for `init_worker_by_lua`. Without a `dict` there is nothing
---to do.
---```lua
---assert(require("redlock.metrics").new():start())
---```
---@return true|nil ok  a timer runs, or there is nothing to do
---@return string|nil err  why none does
function Metrics:start() end

---Adds what this worker has counted since the last time to the sums of all, and says how things
---stand in it. Without a `dict` nothing.
---```lua
---require("redlock.metrics").new():publish()
---```
---@return nil nothing  what does not fit into the dictionary is added later
function Metrics:publish() end

return metrics
