--- The servers of a client: those that it was configured with, until it learns of another list.
--
-- A server has a place, a number from 1, as long as it is in a list; other lists of the servers
-- may give it to another one. Before the core is open, places are what the options have.

local ffi = require "ffi"
local ffi_core = require "redlock.core.ffi"

local ffi_string = ffi.string

local _M = {}

local text

--- @return how many places there are; some may be empty
function _M.count(client)
    return client.core and ffi_core.load().rl_places(client.core) or #client.options.nodes
end

--- The label of the server at a place; nil: there is none.
function _M.label(client, i)
    local node = client.options.nodes[i]
    if not client.core then
        return node and node.label
    end
    local C = ffi_core.load()
    text = text or ffi.new("char[?]", C.RL_LABEL_MAX)
    C.rl_node_label(client.core, i - 1, text)
    return text[0] ~= 0 and ffi_string(text) or nil
end

--- @return how many servers vote: those of the list; between two lists of the new one
function _M.voters(client)
    return client.core and ffi_core.load().rl_voters(client.core) or #client.options.nodes
end

return _M
