-- Random schedules of changes of servers, in worlds: spec/sim/changes.lua.
local changes = require "spec.sim.changes"
local redlock = require "redlock"

-- Which caught wrong variants (spec/sim/mutants.lua), or a fault, that others let pass.
local SEEDS = { 226, 228, 279, 7966, 21173 }

describe("changes of servers in worlds", function()
    local function run(seed)
        local wrong = changes.run(seed)
        assert.is_nil(wrong, ("seed %d: %s; luajit spec/sim/changes.lua %d"):format(seed,
            tostring(wrong), seed))
    end

    it("give no name to two, no token twice, and leave no name stuck", function()
        for _, seed in ipairs(SEEDS) do
            run(seed)
        end
        for seed = 1, 60 do
            run(seed)
        end
    end)

    -- Nightly: minutes.
    it("hold in thousands of schedules #nightly", function()
        local first = 1000 * (os.time() % 1000000)
        for seed = first, first + 3000 do
            run(seed)
        end
    end)
end)

-- What happens by itself when memories are lost after a change from { 1, 2, 3 } to { 4, 2, 3 }.
describe("a cluster whose servers were changed", function()
    local world, old, new, last

    local function take(client, name, wait)
        local lock = client:getFencedLock(name)
        local ok, err = lock:tryLock(wait)
        local token = ok and lock:token() or nil
        return token, not ok and err or lock:unlock() and nil
    end

    local function lose(...)
        for _, i in ipairs { ... } do
            world:kill(i)
        end
        for _, i in ipairs { ... } do
            world:start(i, { forgotten = true })
        end
    end

    before_each(function()
        world = redlock.testing.new { nodes = 4, new_cluster = true,
            client = { max_lease = 2, lease = 1, on_event = false } }
        local function client_of(...)
            local nodes = {}
            for i, k in ipairs { ... } do
                nodes[i] = world.nodes[k]
            end
            return world:client { nodes = nodes }
        end
        old, new = client_of(1, 2, 3), client_of(4, 2, 3)
        assert(old:init())
        assert(take(old, "x", 5))
        assert(old:change(new))
        last = assert(take(new, "x", 10))
    end)

    after_each(function() world:close() end)

    for n = 1, 3 do
        it(("votes again by itself after %d of 3 forgot, for no other list"):format(n), function()
            local lost = { 4, 2, 3 }
            lose(unpack(lost, 1, n))
            local token = assert(take(new, "x", 20))
            assert.is_true(token > last)
            local none, err = take(old, "x", 10)
            assert.is_nil(none)
            assert.equal("config", err.code)
        end)
    end

    it("does not count on floors of a server that was restarted with its data", function()
        local seeded = false
        local two = world:client { nodes = { world.nodes[2], world.nodes[3] },
            on_event = function(e) seeded = seeded or e.type == "fence_seeded" end }
        world:kill(4)
        world:kill(3)
        world:start(3)
        assert(new:change(two, { gone = { world.nodes[4] } }))
        assert.is_true(assert(take(two, "x", 20)) > last)
        assert.is_true(seeded)
    end)

    it("is changed back", function()
        assert(new:change(old))
        local none, err = take(new, "x", 0)
        assert.is_nil(none)
        assert.equal("config", err.code)
        assert.is_true(assert(take(old, "x", 20)) > last)
    end)

    it("has plain locks after one has forgotten and one is down, and tokens later", function()
        world:kill(4)
        lose(2)
        world:advance(5)
        local lock = new:getLock "y"
        assert.is_true(lock:tryLock(10))
        assert.is_true(lock:unlock())
        local none, err = take(new, "x", 3)
        assert.is_nil(none)
        assert.equal("no_quorum", err.code)
        world:start(4)                           -- with its data, but in another life
        assert.is_true(assert(take(new, "x", 20)) > last)
    end)
end)
