-- Five servers are replaced, one after the other, while processes take and hold locks: the ways
-- that examples/operations names, side by side, as most of the time is spent in quarantines.
local command = require "spec.support.command"
local support = require "spec.support"
local sys = require "spec.support.sys"
local workers = require "spec.support.workers"

local SIZE = 5
local OPTIONS = { cluster = "spec", max_lease = 2, lease = 2, timeout = 0.5, connect_timeout = 5,
    patience = 60, fallback = 0.1 }

local QUARANTINE = 2 * 1.01 + 1 - 0.001     -- seconds

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
    sys.write_file(path, "max_lease = 2\nlease = 2\n")
    local p = command.start(cluster, support.tmpdir(), { env = { REDLOCK_CONFIG = path } },
        "check", "--wait")
    local status, text = command.ends(p, 120)
    assert.is_true(status == 0 or status == 1, text)
end

-- Ways to put an empty server in the place of server i of a cluster, for what is printed and done.
local WAYS = {
    ["behind their addresses"] = function(cluster, i)
        cluster[i]:start()
    end,
    ["by others"] = function(cluster, i, load)
        cluster[i] = support.cluster(1, { new = true })[1]
        load:roll(cluster:uris(), 1, 4)
        load:roll(cluster:uris(), 5, 8)
    end,
}

local function new_cluster()
    local cluster = support.cluster(SIZE, { new = true })
    local first = support.warm_client(cluster, options {})
    assert(first:init())
    first:close()
    await_votes(cluster)                 -- all floors are known
    return cluster
end

-- Judges what the workers wrote, then the quiet names.
local function judge(how, cluster, quiet, load)
    local n = load:stop()
    assert.is_true(n.took > 50)
    assert.is_true(n.tokens > 5)
    quiet:grow(cluster)
    if TIMES > 1 then
        print(("%s: %d locks, %d tokens in order, longest wait %.2f s"):format(how, n.took,
            n.tokens, n.wait))
    end
end

describe("servers under load", function()
    it("are replaced behind their addresses, and by others as `cluster` is set and the new list is "
        .. "rolled out in two halves: no two holders, no token twice or back, nothing lost",
        function()
            local clusters = {}
            for how in pairs(WAYS) do
                clusters[how] = new_cluster()
            end
            for _ = 1, TIMES do
                local quiet, load = {}, {}
                for how, cluster in pairs(clusters) do
                    quiet[how] = quiet_names(cluster)
                    load[how] = workers.start { nodes = cluster:uris(), options = OPTIONS,
                        holders = 2, takers = 6 }
                end
                for i = 1, SIZE do
                    local began = support.now()
                    for how, cluster in pairs(clusters) do
                        cluster[i]:kill()
                        WAYS[how](cluster, i, load[how])
                    end
                    support.sleep(1)             -- somebody has met them
                    for _, cluster in pairs(clusters) do
                        local votes = (cluster[i]:marked() or {}).state == "a"
                        assert.is_true(not votes or support.now() >= began + QUARANTINE)
                    end
                    for _, cluster in pairs(clusters) do
                        await_votes(cluster)
                    end
                end
                for how, cluster in pairs(clusters) do
                    judge(how, cluster, quiet[how], load[how])
                end
            end
        end)
end)
