-- Clients of the library under test.
local lua = require "spec.support.lua"
local redis = require "spec.support.redis"
local sys = require "spec.support.sys"

local _M = {}

-- A client of a cluster, of a list of URIs, servers and proxies, or of URIs in one text. Its
-- time-out is one that a busy machine keeps; specs about silent servers give a shorter one.
function _M.client(nodes, opts)
    local redlock = require "redlock"
    local is_text = type(nodes) == "string"
    local o = { nodes = is_text and nodes or {}, timeout = 2,
        cluster = not nodes.unnamed and redis.CLUSTER or nil }
    for i, node in ipairs(is_text and {} or nodes) do
        o.nodes[i] = type(node) == "table" and node.uri or node
    end
    for name, value in pairs(opts or {}) do
        o[name] = value
    end
    return redlock.new(o)
end

-- A client, once all its connections are made: a round ends at the majority, and may end before
-- the last connection is up.
function _M.warm(client)
    sys.eventually(function()
        client:check()
        for _, node in ipairs(client:stats().nodes) do
            if not node.ready or node.in_flight > 0 then
                return false
            end
        end
        return true
    end, 30, "all connections")
    return client
end

function _M.warm_client(...)
    return _M.warm(_M.client(...))
end

-- Lua code in a process of its own, with `client` of the nodes, all connections made, and
-- `l`, its lock "x"; prints "ready" first. opts: of the client, as Lua text.
function _M.child(nodes, opts, code, process_opts)
    local uris = {}
    for i, node in ipairs(nodes) do
        uris[i] = node.uri
    end
    return lua.run(([[
        local support = require "spec.support"
        local client = support.warm_client(%s, %s)
        local l = client:getLock "x"
        print "ready"
        %s
    ]]):format(("{ unnamed = %s, %q }"):format(tostring(nodes.unnamed),
        table.concat(uris, '", "')):gsub('\\"', '"'), opts or "{}", code), process_opts)
end

-- How many scripts a server runs in the client's fallback for 100 calls that wait. begin(i): starts
-- one, and returns its future.
function _M.asked_by_waiters(server, client, begin)
    local futures, fallback = {}, client.options.fallback
    for i = 1, 100 do
        futures[i] = begin(i)
    end
    assert(not futures[1]:get(2 * fallback))       -- all have asked, and subscribed
    local from, before = sys.now(), server:calls_of "evalsha"
    assert(not futures[1]:get(4 * fallback))
    return (server:calls_of "evalsha" - before) / (sys.now() - from) * fallback
end

-- A proxy before each server of a cluster.
function _M.proxies(cluster)
    local proxies = {}
    for i, server in ipairs(cluster) do
        proxies[i] = require("spec.support.proxy").proxy(server.port)
    end
    return proxies
end

--- For all tests of a group: a cluster of n servers, empty before each, and two clients of it, new
-- for each and closed behind it. They are of two processes as far as locks know.
-- @param opts  of the clients
-- @param set  function(cluster, client, other), before each test
function _M.two_clients(n, opts, set)
    local busted = require "busted"
    local cluster = redis.shared_cluster(n)
    local client, other
    busted.before_each(function()
        client, other = _M.warm_client(cluster, opts), _M.warm_client(cluster, opts)
        set(cluster, client, other)
    end)
    busted.after_each(function()
        client:close()
        other:close()
    end)
end

--- What calls a method of each of a list: all(proxies):cut(), all(cluster, 1, 2):kill().
function _M.all(list, from, to)
    return setmetatable({}, {
        __index = function(_, name)
            return function(_, ...)
                for i = from or 1, to or #list do
                    list[i][name](list[i], ...)
                end
            end
        end,
    })
end

return _M
