-- The specs run with whatever server there is, in clean releases, and in workflows.
local support = require "spec.support"
local sys = require "spec.support.sys"

describe("REDIS_SERVER", function()
    after_each(function()
        os.execute "rm -rf build/spec/servers/*_redlock-*_other"     -- the links to it
        support.cleanup()
    end)

    it("names the server of the specs, the command and the examples", function()
        local dir = support.tmpdir()
        assert(support.sh(([[cat > %s/other << END && chmod +x %s/other
#!/bin/sh
echo "\$1" >> %s/started
exec $(command -v redis-server) "\$@"
END]]):format(dir, dir, dir)))
        local c = support.lua([[
            local support = require "spec.support"
            print((support.server():call "PING"))
            os.execute "redis-server --version > /dev/null"
            print "done"
        ]], { env = { REDIS_SERVER = dir .. "/other" } })
        assert.equal("PONG", c:read_line(10))
        assert.equal("done", c:read_line(10))
        assert.equal("--save\n--version\n", sys.read_file(dir .. "/started"))
    end)

    it("is missed by name", function()
        local c = support.lua([[ print(pcall(require, "spec.support")) ]],
            { env = { REDIS_SERVER = "/no/such-server" }, stderr = "null" })
        assert.matches("^false.*REDIS_SERVER=/no/such%-server: there is no such program",
            c:read_line(10))
    end)
end)

describe("the workflows", function()
    local function read(name)
        return assert(sys.read_file(".github/workflows/" .. name .. ".yml"))
    end

    it("run every row of the matrix, and what must pass", function()
        local rows = {}
        for row in sys.read_file("spec/matrix/run"):match '\nROWS="([^"]*)"':gmatch "%S+" do
            rows[#rows + 1] = row
        end
        local night = read "nightly"
        assert.equal(table.concat(rows, ", "), night:match "\n +row: %[([^%]]*)%]")
        assert.truthy(night:find("- run: make nightly\n", 1, true))
        assert.truthy(read "test":find("- run: .ci/run\n", 1, true))
    end)

    it("use nothing whose meaning others can change, and no secrets", function()
        for _, name in ipairs { "test", "nightly" } do
            local text = read(name)
            for action in text:gmatch "uses: ([^\n]*)" do
                assert.matches("^actions/[%w-]+@" .. ("%x"):rep(40) .. "  # v[%d.]+$", action)
            end
            assert.is_nil(text:find "secrets")
            assert.truthy(text:find("permissions:\n  contents: read\n", 1, true))
        end
    end)
end)
