--- How many of n servers are a majority: any two of them share one (quorum_size of the core).

local floor = math.floor

return function(n)
    return floor(n / 2) + 1
end
