---@meta redlock.host.nginx

-- Part of types.lua: settings of an nginx worker rather than of a client.

---The host that clients in OpenResty choose by themselves.
---@class redlock.host.nginx: redlock.Host
local nginx = {}

---Sets the directory in which each worker makes the private directory of its wake-up socket. Call
---it in `init_by_lua`, with a directory that workers may write to. The default is "/tmp".
---```lua
---local function init_by_lua()
---    require("redlock.host.nginx").set_socket_dir "/run/app"
---end
---```
---@param path string  1 to 80 bytes
---@return nil nothing  raises if it is not a path
function nginx.set_socket_dir(path) end

return nginx
