---@meta redlock.host.nginx

-- Part of types.lua: what is of a worker of nginx, and not of a client.

---The host of clients in OpenResty, which they find by themselves.
---@class redlock.host.nginx: redlock.Host
local nginx = {}

---Names the directory in which each worker makes the private directory of its wake-up socket. For
---`init_by_lua`: a directory that workers may write to; without this call it is "/tmp".
---```lua
---local function init_by_lua()
---    require("redlock.host.nginx").set_socket_dir "/run/app"
---end
---```
---@param path string  of 1 to 80 bytes
---@return nil nothing  raises for what is no path
function nginx.set_socket_dir(path) end

return nginx
