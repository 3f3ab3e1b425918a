-- Programs that lock all the time, beside what an operator does, and what they saw.
local lua = require "spec.support.lua"
local scope = require "spec.support.scope"
local sys = require "spec.support.sys"

local _M = {}
_M.__index = _M

-- Each keeps a lock of its own, takes and releases another one of its own, and one that all of them
-- want; under that one it writes until when it relies on it.
local PROGRAM = [[
local sys = require "spec.support.sys"
local me, folder = arg[1], arg[2]
local client = require("redlock").from_environment()
local kept, own = client:getLock("app:kept:" .. me), client:getFencedLock("app:own:" .. me)
local all = client:getFencedLock "app:all"
local seen, errors = { taken = 0, refused = 0, lost = 0, back = 0, twice = 0, longest = 0 }, {}

-- Whether it is held.
local function keep()
    if not kept:isHeldByCurrentThread() and kept:tryLock(0) then
        kept:onLost(function(_, reason)
            seen.lost = seen.lost + 1
            errors[reason] = "lost: " .. reason
        end)
    end
    return kept:isHeldByCurrentThread()
end

local function read(name)
    return tonumber(sys.read_file(folder .. "/" .. name) or "") or 0
end

local function write(name, number)
    local path = folder .. "/" .. name
    sys.write_file(path .. me, ("%.17g"):format(number))
    assert(os.rename(path .. me, path))
end

local function one_at_a_time()
    local ok, token = all:tryLock(0)
    if ok then
        seen.twice = seen.twice + (read "until" > sys.now() and 1 or 0)
        seen.back = seen.back + (token > read "token" and 0 or 1)
        write("until", sys.now() + all:remaining())
        write("token", token)
        sys.sleep(0.01)
        if all:isValid() then
            write("until", 0)
        end
        all:unlock()
    end
end

while not keep() do
    sys.sleep(0.05)
end
local last
repeat
    keep()
    local ok, err = own:tryLock(0)
    if ok then
        if not last then
            print "locks"
        end
        seen.taken = seen.taken + 1
        seen.longest = math.max(seen.longest, last and sys.now() - last or 0)
        last = sys.now()
        own:unlock()
        one_at_a_time()
    elseif last then
        seen.refused = seen.refused + 1
        errors[err.code] = tostring(err)
    end
    sys.sleep(0.05)
until io.open(folder .. "/stop")
seen.longest = last and math.max(seen.longest, sys.now() - last) or seen.longest
for name, value in pairs(seen) do
    print(name, value)
end
for _, text in pairs(errors) do
    print("error", text)
end
print "ended"
client:close()
]]

--- Starts n programs, whose settings are environment variables, and waits until all have locked.
function _M.start(n, env)
    local self = setmetatable({ folder = scope.tmpdir() }, _M)
    for i = 1, n do
        self[i] = lua.run(PROGRAM, { args = { i, self.folder }, env = env, stderr = "stdout" })
    end
    for i = 1, n do
        local line = self[i]:read_line(60)
        assert(line == "locks", line)
    end
    return self
end

--- Ends them. What all together saw: how many locks were taken, refused and lost (the kept ones),
-- tokens that went back, two holders at once, and the longest time, in seconds, in which one of the
-- programs took no lock; the errors that they got, one of each code.
function _M:stop()
    sys.write_file(self.folder .. "/stop", "")
    local seen, errors = {}, {}
    for i = 1, #self do
        repeat
            local line = assert(self[i]:read_line(60))
            local name, value = line:match "^(%l+)\t(.*)$"
            if name == "error" then
                errors[#errors + 1] = value
            elseif name then
                local more = tonumber(value)
                seen[name] = name == "longest" and math.max(seen.longest or 0, more)
                    or (seen[name] or 0) + more
            end
        until line == "ended"
        self[i]:wait(10)
    end
    seen.errors = table.concat(errors, "\n")
    return seen
end

return _M
