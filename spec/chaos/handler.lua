-- What a worker of nginx does with the requests of web.lua: each is a user of locks.
local cjson = require "cjson"
local marks = require "spec.chaos.marks"
local random = require "spec.chaos.random"
local sys = require "spec.support.sys"
local users = require "spec.chaos.user"

local ngx = ngx

local _M = {}

-- Less than a millisecond is 0 to nginx, which it complains of.
local wait = { sleep = function(seconds) ngx.sleep(math.max(seconds, 0.001)) end }

function wait.call(lock, method, ...)
    return lock[method](lock, ...)
end

--- In init_worker_by_lua. @param file  as of worker.lua
-- @return a function that serves a request
function _M.new(file, client)
    local config = cjson.decode(assert(sys.read_file(file)))
    local id, send = ("%s#%d"):format(config.id, ngx.worker.pid()), marks.sender(config.recorder)
    local user = users.new { id = id, config = config, client = client, send = send, wait = wait,
        ended = function() return false end }
    return function()
        local s, r = tonumber(ngx.var.arg_s), tonumber(ngx.var.arg_r)
        local slot = { number = s, request = r, careless = s == config.careless_slot,
            fenced = s % 2 == 0, random = random.new(config.seed, config.id, s, r) }
        if ngx.var.arg_settle then
            user:settle(slot)
        else
            user:one(slot)
        end
        ngx.print "ok"
    end
end

return _M
