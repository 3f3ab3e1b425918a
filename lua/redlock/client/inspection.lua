--- client:locks: the names that are held, whoever holds them.

local census = require "redlock.inspect.census"
local errors = require "redlock.runtime.errors"
local lock = require "redlock.lock.lock"
local validate = require "redlock.runtime.validate"

local ipairs = ipairs

local _M = {}

local OPTIONS = { foreign = true, limit = true, rate = true, within = true, pause = true }
local RATE, LIMIT, WITHIN = 100000, 100000, 600
local MAX_PATTERN = 1024

local function read_options(pattern, opts)
    opts = validate.options("options", opts, OPTIONS)
    return {
        pattern = pattern == nil and "*" or validate.name("pattern", pattern, MAX_PATTERN),
        foreign = validate.flag("foreign", opts.foreign),
        limit = opts.limit == nil and LIMIT or validate.integer("limit", opts.limit, 1, 1e9),
        rate = opts.rate == nil and RATE or validate.integer("rate", opts.rate, 100, 1e9),
        pause = opts.pause and validate.is_function("pause", opts.pause),
        within = opts.within == nil and WITHIN or validate.seconds("within", opts.within, 0),
    }
end

-- Why too few servers completed the scan.
local function failure(self, servers)
    if self.closed then
        return errors.new("closed", "locks")
    end
    local rows = {}
    for i, server in ipairs(servers) do
        rows[i] = server.failed or { node = server.label, code = "ok", vote = 1, message = "yes" }
    end
    return errors.new("no_quorum", "the names of locks", rows)
end

--- The names that a majority of a client's servers has.
function _M.locks(self, pattern, opts)
    opts = read_options(pattern, opts)
    local ok, err = lock.open_to_wait { client = self, describe = function() return "locks" end }
    if not ok then
        return nil, err
    end
    local servers, done, need = census.scan(self, opts)
    if done < need or self.closed then
        return nil, failure(self, servers)
    end
    local list = census.result(self, servers, opts)
    if self.closed then
        return nil, failure(self, servers)
    end
    return list
end

return _M
