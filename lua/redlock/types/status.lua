---@meta redlock.status

-- Part of types.lua: a status page of the locks of a host.

---A status page for OpenResty: HTML for people, JSON or Prometheus text for programs. It names the
---host, and shows the servers, the names held here, those awaited here and who holds them, losses,
---and a chart of the last ten minutes. Anyone who can read it learns the names of locks and the
---addresses of servers.
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

---Makes the page of some metrics. Raises unless they have a `dict`.
---```lua
---local made, why = pcall(require("redlock.status").new, {})
---assert(not made and why:find "redlock.metrics")
---```
---@param opts redlock.StatusOptions  what it shows
---@return redlock.Status status  to be served
function status.new(opts) end

---What the page shows.
---@class (exact) redlock.StatusOptions
---@field metrics redlock.Metrics  of all clients that it shows, with a `dict`

---Serves the page. `tostring` is for people.
---@class redlock.Status
local Status = {}

---Answers a request in nginx: `?format=html`, `json` or `prometheus`; by default as the request's
---Accept header says.
---```lua
---local function content_by_lua(page)
---    page:serve()
---end
---```
---@return nil nothing  it writes the response
function Status:serve() end

---Returns the page as HTML.
---```lua
---local function content_by_lua(page)
---    local html, policy = page:html()
---    ngx.header.content_security_policy = policy
---    ngx.print(html)
---end
---```
---@return string html  needs no other files
---@return string policy  for the header Content-Security-Policy: only its own script may run
function Status:html() end

---Returns the page as JSON.
---```lua
---local function content_by_lua(page)
---    ngx.print(page:json())
---end
---```
---@return string json  an object and a line break
function Status:json() end

return status
