-- luajit spec/chaos/main.lua [SECONDS [SEED [NODES [BEYOND [RATE [GUARD]]]]]]
--
-- `make chaos T=60 SEED=n NODES=5 BEYOND=1 RATE=2 GUARD=0`. Prints the schedule, what
-- happened and what is wrong with it; exits with 1 when anything is.
local run = require "spec.chaos.run"

local function fresh_seed()
    local file = assert(io.open("/dev/urandom", "rb"))
    local a, b, c = file:read(3):byte(1, 3)
    file:close()
    return a * 65536 + b * 256 + c
end

local function number(text, default)
    return text and text ~= "" and assert(tonumber(text), "not a number: " .. text) or default
end

local function list(counts)
    local names, parts = {}, {}
    for name in pairs(counts) do
        names[#names + 1] = name
    end
    table.sort(names)
    for i, name in ipairs(names) do
        parts[i] = ("%s %d"):format(name, counts[name])
    end
    return #parts > 0 and table.concat(parts, ", ") or "none"
end

local seed = number(arg[2], nil) or fresh_seed()
local beyond = arg[4] ~= nil and arg[4] ~= "" and arg[4] ~= "0"
local guard = arg[6] ~= "0"
local nodes, seconds, rate = number(arg[3], 5), number(arg[1], 60), number(arg[5], 1)

io.stdout:setvbuf "line"
print(("chaos: seed %d, %d servers%s, %g s%s"):format(seed, nodes, guard and ""
    or " without restart guard", seconds, beyond and ", beyond what can be promised" or ""))
local v = run.run { seed = seed, seconds = seconds, nodes = nodes, claim = not beyond,
    rate = rate, restart_guard = guard, report = print }
print(("calls: %s"):format(list(v.counts)))
print(("faults: %s"):format(list(v.faults)))
print(("valid at once: %d; lost updates: %d by those who check their validity, %d by those "
    .. "who ignore it"):format(v.overlaps, v.lost_updates.careful, v.lost_updates.careless))
print(("%d clients lived to the end, %.0f s at most; grown by %d descriptors, %d KiB resident, "
    .. "%d KiB of Lua at most"):format(v.growth.clients, v.growth.seconds, v.growth.fds,
    v.growth.rss, v.growth.lua))
print(("entered while another was inside, validity or not: %s"):format(list(v.intrusions)))
for _, violation in ipairs(v.violations) do
    print(("VIOLATION at %.3f s: %s"):format((violation.t - v.t0) / 1000, violation.text))
end
print(("%d violations; history: %s"):format(#v.violations, v.path))
if #v.violations > 0 then
    print(("again: make chaos T=%g SEED=%d NODES=%d RATE=%g%s%s"):format(seconds, seed,
        nodes, rate, beyond and " BEYOND=1" or "", guard and "" or " GUARD=0"))
end
os.exit(#v.violations == 0 and 0 or 1)
