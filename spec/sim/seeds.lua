--- Which schedules are run: seeds that change with the commit, and those that are remembered.

local _M = {}

local FIRST_OF_DATES = 2e9        -- above all seeds that belong to a commit
local SEEDS_A_DAY = 4e6

local env = os.getenv

local function output(command)
    local pipe = io.popen(command .. " 2> /dev/null")
    local text = pipe:read "*l"
    pipe:close()
    return text ~= "" and text or nil
end

--- A number from 1 to 10^9 by the first hex digits of a text.
local function from_hex(digits)
    return 1 + tonumber(digits:sub(1, 12), 16) % 1e9
end

local function version()
    for line in io.lines "lua/redlock/init.lua" do
        local found = line:match '_VERSION = "([^"]*)"'
        if found then
            return found
        end
    end
end

--- Whether the schedules are those of `make sim` and `make test`, with no settings of their own.
local function plain()
    return not (env "PREFIX" or env "SIM_FAULTS" or env "SIM_GUARD" or env "SIM_FENCED"
        or env "SIM_FAMILY" or env "SIM_LEASE"
        or env "SIM_IGNORE" or env "SIM_CPATH" or env "SIM_LUA")
end

--- The first seed: SEED; else by the date, if it is given (DATE=20261125); else by the commit;
-- else, in a copy without git, by the version.
-- @return the seed, and a text that says where it comes from where remembered seeds are to be
--   run before it, else nil
function _M.first()
    local date = env "DATE"
    if env "SEED" or env "SIM_WORK" then
        return tonumber(env "SEED" or 1)
    elseif date then
        local time = os.time { year = date:sub(1, 4), month = date:sub(5, 6), day = date:sub(7, 8) }
        return FIRST_OF_DATES + math.floor(time / 86400) * SEEDS_A_DAY, plain() and "date " .. date
    end
    local commit = output "git rev-parse HEAD"
    if commit and commit:match "^%x+$" then
        return from_hex(commit), plain() and "commit " .. commit:sub(1, 8)
    end
    local text = version()
    local hex = text:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
    return from_hex(hex), plain() and "version " .. text
end

--- The seeds of seeds.txt: a list of { seed =, settings = environment for run.lua }.
function _M.remembered()
    local list = {}
    for line in io.lines "spec/sim/seeds.txt" do
        local seed, settings = line:match "^(%d+)%s*([^:]*): %S"
        if seed then
            list[#list + 1] = { seed = seed, settings = settings }
        elseif line:sub(1, 1) ~= "#" then
            error("spec/sim/seeds.txt: not 'SEED [NAME=VALUE ...]: why': " .. line, 0)
        end
    end
    return list
end

return _M
