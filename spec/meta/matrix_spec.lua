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

-- Whatever the specs run with is something that users may believe in.
describe("what the page on platforms says", function()
    local said = sys.read_file "examples/platforms/README.md"

    local function output(command)
        local p = assert(io.popen(command))
        local text = p:read "*a"
        p:close()
        return text
    end

    -- "gcc 10 to 16" has "12.2.0" in it; the last number of each counts, and those before it
    -- are the same or, as in "0.14 to 1.4", decide.
    local function names(what, version)
        local from, to = said:match(what .. "[%s|]+([%d.]*%d)%s+to%s+([%d.]*%d)")
        local function number(text)
            local sum, _, dots = 0, from:gsub("%.", "")
            for part in (text .. (".0"):rep(3)):gmatch "%d+" do
                if dots >= 0 then
                    sum, dots = sum * 1000 + part, dots - 1
                end
            end
            return sum
        end
        assert.is_true(number(from) <= number(version) and number(version) <= number(to),
            ("%s %s is not within %s to %s"):format(what, version, from, to))
    end

    it("names the server", function()
        local kind, version = output "redis-server --version":match "^(%a+) server v=(%d+%.%d+)"
        local list = said:match("\n| " .. kind .. " | ([%d., ]+) |")
        assert.truthy((" " .. list .. ","):find(" " .. version .. ",", 1, true), version)
    end)

    it("names the compilers, hiredis, and nginx's module if there is one", function()
        names("gcc", output "gcc -dumpversion")
        names("clang", output "clang -dumpversion")
        names("hiredis", output "pkg-config --modversion hiredis")
        local module = output "dpkg-query -W libnginx-mod-http-lua 2> /dev/null"
        if module ~= "" then
            names("lua%-nginx%-module may be", module:match "%d+%.%d+%.%d+")
        end
    end)

    it("names the releases of the matrix", function()
        local numbers = { bullseye = "11", bookworm = "12", trixie = "13", sid = "sid" }
        for row in sys.read_file "spec/matrix/run":match '\nROWS="([^"]*)"':gmatch "%S+" do
            local name = numbers[row:match "^%l+"]
            assert.truthy(not name or said:find("Debian[^.]*%f[%w]" .. name .. "%f[%W]"), row)
        end
    end)
end)
