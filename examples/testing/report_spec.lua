-- The specs of report.lua (busted): no servers are needed, and a minute takes no time.
local redlock = require "redlock"
local report = require "report"

describe("the report", function()
    local world, saved

    before_each(function()
        world = redlock.testing.new { nodes = 3, client = { lease = 30 } }
        saved = {}
    end)
    after_each(function()
        world:close()
    end)

    -- Keeps a page in a minute, and refuses those of an older writer.
    local function save(page, token)
        world:advance(60)
        assert(not saved.token or token >= saved.token, "an old writer")
        saved[page], saved.token = token, token
    end

    it("is written by one machine", function()
        local first = world:spawn(report.write, world:client(), 3, save)
        local second = world:spawn(report.write, world:client(), 3, save)
        local done, why = first:join()
        local other, because = second:join()
        assert(done == "written" and because == "held" or other == "written" and why == "held")
        assert.equal(3, #saved)
    end)

    it("is written while a server is down", function()
        local task = world:spawn(report.write, world:client(), 3, save)
        world:advance(70)
        world:kill(2)
        assert.equal("written", task:join())
    end)

    it("is not written any more by a machine that has stood still for too long", function()
        local machine = world:client()
        local done, why = report.write(machine, 3, function(page, token)
            save(page, token)
            if page == 2 then
                world:stop(machine, 31)
            end
        end)
        assert.is_nil(done)
        assert.equal("lost", why)
        assert.equal(2, #saved)
    end)

    it("is written by another machine when one dies", function()
        local machine = world:client()
        world:spawn(report.write, machine, 3, save)
        world:advance(70)
        world:crash(machine)
        local other = world:client()
        assert.is_nil((report.write(other, 3, save)))       -- the lease has not ended
        world:advance(31)
        assert.equal("written", report.write(other, 3, save))
    end)
end)
