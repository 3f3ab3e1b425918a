-- A part of make bench: what the command costs, beside util-linux's flock: a process for each lock.
local ffi = require "ffi"
local command = require "spec.support.command"
local support = require "spec.support"
local turns = require "spec.bench.turns"

ffi.cdef [[
struct bench_usage { long user[2], system[2], rest[14]; };
int getrusage(int, struct bench_usage *);
]]

local CHILDREN, COUNT = -1, 20
local usage = ffi.new "struct bench_usage"

-- CPU time in us of all processes that have ended.
local function used()
    ffi.C.getrusage(CHILDREN, usage)
    return tonumber(usage.user[0] + usage.system[0]) * 1e6
        + tonumber(usage.user[1] + usage.system[1])
end

local _M = {}

-- One batch: a shell runs the command some times. Wall time and CPU of each.
local function batch(line, env)
    local from, cpu = support.now(), used()
    local p = support.spawn { "sh", "-ec", ("for i in $(seq %d); do %s; done"):format(COUNT,
        line), env = env, stdout = "/dev/null" }
    assert(p:wait(120) == 0, line)
    return { wall = (support.now() - from) * 1000 / COUNT, cpu = (used() - cpu) / 1000 / COUNT }
end

function _M.run(rounds)
    local cluster, env = support.cluster(3), support.lua_env()
    env.REDLOCK_NODES, env.REDLOCK_CLUSTER = table.concat(cluster:uris(), " "), support.CLUSTER
    env.HOME, env.XDG_CONFIG_HOME, env.REDLOCK_CONFIG = support.tmpdir(), false, false
    local redlock = command.REDLOCK .. " "
    local client = support.warm_client(cluster)
    assert(client:getLock("held"):tryLock(0))
    local rows = { { "flock -n FILE true", "flock -n " .. support.tmpdir() .. "/lock true" },
        { "redlock run x -- true", redlock .. "run x -- true" },
        { "redlock status held", redlock .. "status held" } }
    print "\nTHE COMMAND, ms: wall, CPU of all its processes; each beside flock: median (quartiles)"
    local batches = {}
    for round = 1, rounds do
        for i, row in ipairs(rows) do
            batches[i] = batches[i] or {}
            batches[i][round] = batch(row[2], env)
        end
    end
    for i, row in ipairs(rows) do
        print(("    %-22s %6.1f %6.1f   %s   %s"):format(row[1],
            turns.median_of(batches[i], "wall"), turns.median_of(batches[i], "cpu"),
            turns.ratio(batches[i], batches[1], "wall"),
            turns.ratio(batches[i], batches[1], "cpu")))
    end
    client:close()
    cluster:stop()
end

return _M
