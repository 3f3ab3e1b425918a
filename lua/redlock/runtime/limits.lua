--- Numbers that several modules share: bounds, and what a majority is. spec/process/core_spec.lua
-- compares the bounds, except VALUE_MAX, with the core's.

local floor, sort = math.floor, table.sort

local _M = {
    MAX_NODES = 32,           -- RL_MAX_NODES: votes are kept in masks of 32 bits
    VALUE_LEN = 40,           -- RL_VALUE_LEN: 20 random bytes, in hex
    VALUE_MAX = 256,          -- RL_VALUE_MAX: with a card
    MAX_NAME = 65536,         -- bytes of the name of a lock or a resource
    MAX_KEYS = 128,           -- RL_MAX_KEYS: of one script call
    MAX_ARGS = 16,            -- RL_MAX_ARGS
    TOKEN_END = 1e14,         -- tokens are below it: exact in Lua, JSON and printed text ...
    TOKEN_DIGITS = 14,        -- ... of at most that many digits
    DAY = 86400,              -- seconds
}

--- @return how many of n servers are a majority: any two majorities share a server
function _M.quorum(n)
    return floor(n / 2) + 1
end

--- What a majority of the servers says.
-- @param said  a list of the answers
-- @param n     how many servers there are
-- @param key   function(answer) -> what it says; nil: nothing that could win
-- @return what a majority says; false: nothing has one; nil: the silent servers may still decide
function _M.majority(said, n, key)
    local votes, most, winner, q = {}, 0, nil, _M.quorum(n)
    for i = 1, #said do
        local vote = key(said[i])
        if vote ~= nil then
            votes[vote] = (votes[vote] or 0) + 1
            if votes[vote] > most then
                most, winner = votes[vote], vote
            end
        end
    end
    if most >= q then
        return winner
    elseif #said < q or most > 0 and most + n - #said >= q then
        return nil
    end
    return false
end

--- @param list  numbers, which are sorted
-- @return the middle one; 0: the list is empty
function _M.median(list)
    sort(list)
    return list[floor(#list / 2) + 1] or 0
end

return _M
