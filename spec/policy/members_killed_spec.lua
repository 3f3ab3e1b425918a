-- Who changes the list of servers is killed, wherever that may be, and somebody else finishes it.
-- REDLOCK_CHANGES: how many changes are begun, of which most are cut short; make nightly: 100.
-- Runs alone: watchdogs of several processes renew leases of a second or two.
local cli = require "spec.support.command"
local quarantine = require "spec.support.quarantine"
local support = require "spec.support"
local sys = require "spec.support.sys"
local workers = require "spec.support.workers"

local CHANGES = tonumber(os.getenv "REDLOCK_CHANGES")
local MAX_LEASE = CHANGES and 2 or 1
local GUARD = MAX_LEASE * 1.01 + 1
local RECORD = "redlock:{server}:members"

-- What the command says before each of its steps, after which it is killed.
local STEPS = {
    { name = "a member's quarantine", says = "waits for .* to vote", forgets = true },
    { name = "floors", says = "tells servers how far fencing tokens are" },
    { name = "before the joint list", says = "from {.*} to {.*}" },
    { name = "between the lists", says = "waits for what was begun under the old list" },
    { name = "the newcomer's quarantine", says = "waits for .* to vote" },
    CHANGES and { name = "any moment" },
}

describe("who changes the list of servers is killed", function()
    local cluster, home, client

    before_each(function()
        cluster, home = support.cluster(4, { new = true }), support.tmpdir()
        assert.is_true(support.sh("mkdir " .. home .. "/.config"))
        sys.write_file(home .. "/.config/redlock.conf", ("max_lease = %g\nlease = %g\ntimeout = 2\n"
            .. "connect_timeout = 5\npatience = 60\n"):format(MAX_LEASE, MAX_LEASE))
        client = support.warm_client({ cluster[1], cluster[2], cluster[3] },
            quarantine.options { max_lease = MAX_LEASE, lease = MAX_LEASE, timeout = 2,
                connect_timeout = 5, patience = 60 })
        assert(client:init())
        assert(client:members { online = true })
    end)
    after_each(support.cleanup)

    -- The servers of the list that is in force, the one that is in none, and the list. All of its
    -- members vote in the same list, and have the same record of it.
    local function settled()
        local found = support.eventually(function()
            local list = assert(client:members())
            for _, member in ipairs(list.list) do
                if list.old or not member.votes or member.epoch ~= list.epoch then
                    return nil
                end
            end
            return list
        end, 4 * GUARD + 30, "one list, all of whose members vote")
        local there, spare, record = {}, nil, nil
        for _, server in ipairs(cluster) do
            local member
            for _, m in ipairs(found.list) do
                member = member or m.node == server.uri
            end
            if member then
                there[#there + 1] = server
                record = record or server:call("GET", RECORD)
                assert.equal(record, server:call("GET", RECORD))
            else
                spare = server
            end
        end
        assert.equal(3, #there)
        return there, spare, found
    end

    local function redlock(there, ...)
        return cli.start({ uris = function()
            return { there[1].uri, there[2].uri, there[3].uri }
        end }, home, {}, ...)
    end

    -- Kills a command when it has said that, or some time later; whether it was still at it.
    local function kill(p, says, seconds)
        repeat
            local line = p:read_line(4 * GUARD + 30)
        until not line or line:find(says)
        sys.sleep(seconds)
        local alive = p:kill "KILL"
        p:wait(10)
        p:close()
        return alive
    end

    -- Begins a change, which is cut short at that step; whether it was.
    local function begin(step, there, spare)
        if step.forgets then
            there[2]:kill()
            there[2]:start()
        end
        local p = redlock(there, "members", "replace", there[1].uri .. "=" .. spare.uri)
        return kill(p, step.says or "", step.says and 0 or math.random() * (2 * GUARD))
    end

    local function finish(there)
        local status, said = cli.ends(redlock(there, "members", "finish"), 300)
        assert.equal(0, status, said)
    end

    local function tell(n, took)
        local words = {}
        for i, step in ipairs(STEPS) do
            words[i] = ("%s %d"):format(step.name, n[step.name] or 0)
        end
        print(("%d changes begun; killed %d, at: %s; who finishes it, too: %d; the list changed %d "
            .. "times; %d locks taken, %d tokens that grew"):format(n.begun, n.killed,
            table.concat(words, ", "), n.again, n.changed, took.took, took.tokens))
    end

    it("and another process finishes it: one list, nothing lost, no two holders, no token twice",
    function()
        local there, spare, found = settled()
        local load = workers.start { nodes = { there[1].uri, there[2].uri, there[3].uri },
            holders = 2, takers = 3, options = ("{ max_lease = %g, lease = %g, timeout = 1, "
            .. "connect_timeout = 5, patience = 60, fallback = 0.1 }"):format(MAX_LEASE,
            MAX_LEASE) }
        math.randomseed(os.time())
        local n = { begun = CHANGES or #STEPS, changed = 0, killed = 0, again = 0 }
        for i = 1, n.begun do
            local step = STEPS[CHANGES and math.random(#STEPS) or i]
            local epoch = found.epoch
            if CHANGES then
                print(("%.1f %d %s, epoch %d"):format(support.now(), i, step.name, epoch))
            end
            if begin(step, there, spare) then
                n.killed = n.killed + 1
                n[step.name] = (n[step.name] or 0) + 1
            end
            if CHANGES and math.random(3) == 1 then
                n.again = n.again + (kill(redlock(there, "members", "finish"), "",
                    math.random() * GUARD) and 1 or 0)
            end
            finish(there)
            there, spare, found = settled()
            n.changed = n.changed + (found.epoch > epoch and 1 or 0)
            assert.is_true(found.epoch == epoch or found.epoch == epoch + 2)
        end
        local took = load:stop()
        assert.is_true(n.changed > 0 and n.killed > n.begun / 2)
        assert.is_true(took.took > 10 * n.begun and took.tokens > n.begun)
        if CHANGES then
            tell(n, took)
        end
    end)
end)
