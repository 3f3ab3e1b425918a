--- The servers of a client: those of its configuration. Numbered from 1.

local _M = {}

--- @return how many there are
function _M.count(client)
    return #client.options.nodes
end

--- @return the label of server i
function _M.label(client, i)
    return client.options.nodes[i].label
end

return _M
