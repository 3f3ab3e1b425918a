-- All servers of a list are replaced, one after the other, while processes take and hold locks.
-- Runs alone: watchdogs of eight processes renew leases of a few seconds.
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"
local workers = require "spec.support.workers"

-- A slow machine renews a lease of that length, too.
local MAX_LEASE = 4

describe("a list of servers under load", function()
    after_each(support.cleanup)

    for _, size in ipairs { 3, 5 } do
        it(("of %d is replaced by another one, server by server: no two holders, no token twice, "
            .. "and nothing lost"):format(size), function()
            local cluster = support.cluster(2 * size, { new = true })
            local first, uris, right = {}, {}, {}
            for i = 1, size do
                first[i], uris[i], right[i] = cluster[i], cluster[i].uri, cluster[i + size].uri
            end
            local options = quarantine.options { max_lease = MAX_LEASE, lease = MAX_LEASE,
                timeout = 1, connect_timeout = 5, patience = 60 }
            local changer = support.warm_client(first, options)
            assert(changer:init())
            assert(changer:members { online = true })
            local load = workers.start { nodes = uris, holders = 2, takers = 6, options =
                ("{ max_lease = %d, lease = %d, timeout = 1, connect_timeout = 5, patience = 60, "
                .. "fallback = 0.1 }"):format(MAX_LEASE, MAX_LEASE) }
            for i = 1, size do
                local found = assert(changer:members { remove = cluster[i].uri,
                    add = cluster[i + size].uri })
                assert.equal(4 + 2 * i, found.epoch)
                cluster[i]:kill()
            end
            local n = load:stop()
            assert.is_true(n.took > 50)
            assert.is_true(n.tokens > 10)
            local left = {}
            for i, member in ipairs(assert(changer:members()).list) do
                assert.is_true(member.votes)
                left[i] = member.node
            end
            table.sort(left)
            table.sort(right)
            assert.same(right, left)
        end)
    end
end)
