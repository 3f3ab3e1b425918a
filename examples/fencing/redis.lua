-- Fencing tokens for data in Redis: redlock.resource checks them, in one script per command.
-- Needs nothing else. `make fencing` runs it; arguments: the servers of the lock.

local resource = require "redlock.resource"
local story = require "examples.fencing.story"
local support = require "spec.support"

local KEY = "account:7"

local recipe = { title = "An account in Redis" }

function recipe.create()
    local server = support.server()
    assert(server:call("SET", KEY, 100))
    return server.port
end

function recipe.balance(port)
    return tonumber(support.connect(tonumber(port)):call("GET", KEY))
end

function recipe.checked(port)
    local conn = support.connect(tonumber(port))
    -- With lua-resty-redis: function(cmd, ...) return red[cmd:lower()](red, ...) end
    local account = resource.new(KEY, function(...) return conn:call(...) end)

    local function read(token)
        local ok, value = account:get(token)     -- refuses older tokens from here on
        if not ok then
            return nil, value
        end
        return tonumber(value)
    end

    local function write(token, balance)
        return account:set(token, balance)
    end

    return { read = read, write = write }
end

function recipe.unchecked(port)
    local conn = support.connect(tonumber(port))
    return {
        read = function() return recipe.balance(port) end,
        write = function(_, balance) return conn:call("SET", KEY, balance) end,
    }
end

story.run(arg[0], { recipe }, arg)
