-- What calls of the library come to.
local _M = {}

--- The call has failed: it gave nil and an error.
-- @param code  of the error
-- @param ok    what the call gave, and
-- @param err   its error
-- @return the error
function _M.fails(code, ok, err)
    if ok ~= nil or type(err) ~= "table" or err.code ~= code then
        error(("not nil and an error %q, but %s and %s"):format(code, tostring(ok), tostring(err)),
            2)
    end
    return err
end

--- @return the codes of an error's servers, in their order, with spaces between them
function _M.codes(err)
    local list = {}
    for i, row in ipairs(err.nodes) do
        list[i] = row.code
    end
    return table.concat(list, " ")
end

return _M
