---@meta redlock.status

-- Part of types.lua: a page of what the locks of a host do.

---A page for OpenResty, for people, and for programs as JSON or for Prometheus: the servers, what
---is held and waited for, what was lost, a chart of the last ten minutes. Whoever can read it
---learns the names of locks and the addresses of servers.
---```lua
---local function init_by_lua()
---    local metrics = require("redlock.metrics").new { dict = "redlock" }
---    status = require("redlock.status").new { metrics = metrics }
---end
---local function content_by_lua()
---    status:serve()
---end
---```
---@class redlock.status
local status = {}

---The page of what some metrics count. Raises unless they have a `dict`.
---```lua
---local made, why = pcall(require("redlock.status").new, {})
---assert(not made and why:find "redlock.metrics")
---```
---@param opts redlock.StatusOptions  what it shows
---@return redlock.Status status  to be served
function status.new(opts) end

---What the page shows.
---@class (exact) redlock.StatusOptions
---@field metrics redlock.Metrics  of all clients that it tells of, with a `dict`

---What serves the page. `tostring` is for people.
---@class redlock.Status
local Status = {}

---Answers the request of a worker: `?format=html`, `json` or `prometheus`; without that by its
---header Accept.
---```lua
---local function content_by_lua(page)
---    page:serve()
---end
---```
---@return nil nothing  what is written is the response
function Status:serve() end

---The page.
---```lua
---local function content_by_lua(page)
---    local html, policy = page:html()
---    ngx.header.content_security_policy = policy
---    ngx.print(html)
---end
---```
---@return string html  that needs nothing from outside
---@return string policy  what the header Content-Security-Policy is to say: its script runs alone
function Status:html() end

---The same for programs.
---```lua
---local function content_by_lua(page)
---    ngx.print(page:json())
---end
---```
---@return string json  an object, and a line break
function Status:json() end

return status
