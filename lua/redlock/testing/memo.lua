--- Caches results of a function: up to `most`, then it forgets all.
--
-- @param fn  a function of one argument, whose result (not nil) depends on nothing else
return function(fn, most)
    local known, count = {}, 0
    return function(key)
        local result = known[key]
        if result == nil then
            if count == most then
                known, count = {}, 0
            end
            result = fn(key)
            known[key], count = result, count + 1
        end
        return result
    end
end
