-- Five servers are replaced, one after the other, while processes take and hold locks: the ways
-- that examples/operations names.
-- Runs alone: watchdogs of eight processes renew leases of one second.
local command = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"
local workers = require "spec.support.workers"

local SIZE = 5
local OPTIONS = { cluster = "spec", max_lease = 1, lease = 1, timeout = 0.5, connect_timeout = 5,
    patience = 60, fallback = 0.1 }

-- How often all servers are replaced; a hundred times every night.
local TIMES = tonumber(os.getenv "REDLOCK_REPLACEMENTS" or 1)

local function options(more)
    local o = {}
    for _, list in ipairs { OPTIONS, more } do
        for name, value in pairs(list) do
            o[name] = value
        end
    end
    return o
end

-- Fenced names that nobody touches while servers are replaced: their tokens go on.
local Quiet = {}
Quiet.__index = Quiet

local function quiet_names(cluster)
    local self = setmetatable({ tokens = {} }, Quiet)
    self:grow(cluster)
    return self
end

function Quiet:grow(cluster)
    local seeded
    local client = support.warm_client(cluster, options { on_event = function(e)
        seeded = seeded or e.type == "fence_seeded" and e.node
    end })
    for k = 1, 40 do
        local lock = client:getFencedLock("quiet" .. k)
        local _, token = assert(lock:tryLock(60))
        assert(token > (self.tokens[k] or 0), ("%s: %.0f after %.0f"):format(lock.name, token,
            self.tokens[k] or 0))
        self.tokens[k] = token
        assert(lock:unlock())
    end
    client:close()
    assert(not seeded, "a token was guessed: " .. tostring(seeded))
end

-- `redlock check --wait`, as operators run it between two replacements.
local function await_votes(cluster)
    local path = support.tmpdir() .. "/redlock.conf"
    sys.write_file(path, "max_lease = 1\nlease = 1\n")
    local p = command.start(cluster, support.tmpdir(), { env = { REDLOCK_CONFIG = path } },
        "check", "--wait")
    local status, text = command.ends(p, 120)
    assert.is_true(status == 0 or status == 1, text)
end

-- Replaces each of five servers while workers take and hold locks, and judges what they wrote.
-- @param how      in words, for what is printed
-- @param replace  function(cluster, i, load): puts an empty server in the place of server i
local function all_are_replaced(how, replace)
    local cluster = support.cluster(SIZE, { new = true })
    local first = support.warm_client(cluster, options {})
    assert(first:init())
    first:close()
    await_votes(cluster)                 -- all floors are known
    for _ = 1, TIMES do
        local quiet = quiet_names(cluster)
        local load = workers.start { nodes = cluster:uris(), options = OPTIONS, holders = 2,
            takers = 6 }
        for i = 1, SIZE do
            cluster[i]:kill()
            replace(cluster, i, load)
            await_votes(cluster)
        end
        local n = load:stop()
        assert.is_true(n.took > 50)
        assert.is_true(n.tokens > 5)
        quiet:grow(cluster)
        if TIMES > 1 then
            print(("%s: %d locks, %d tokens in order, longest wait %.2f s"):format(how, n.took,
                n.tokens, n.wait))
        end
    end
end

describe("servers under load", function()
    it("are replaced behind their addresses: no two holders, no token twice or back, nothing lost",
        function()
            all_are_replaced("behind their addresses", function(cluster, i)
                cluster[i]:start()
            end)
        end)

    it("are replaced by others, as `cluster` is set, and the new list is rolled out in two halves",
        function()
            all_are_replaced("by others", function(cluster, i, load)
                cluster[i] = support.cluster(1, { new = true })[1]
                load:roll(cluster:uris(), 1, 4)
                load:roll(cluster:uris(), 5, 8)
            end)
        end)
end)
