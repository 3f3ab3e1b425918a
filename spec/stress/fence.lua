-- Fencing tokens under everything that may happen to servers and holders; see run().
--
--     luajit spec/stress/fence.lua [HOLDS [SEED [VARIANT]]]    or: make stress N=HOLDS
--
-- Variants: "keeps" (the default), where servers come back from a kill with what they had
-- saved; "forgets", where they come back empty, or are flushed, one at a time, and the
-- restart guard is on; "unconfirmed", the control: as "keeps", without the second round.
local support = require "spec.support"
local build = require "spec.support.build"
local proc = require "spec.support.proc"
local lua = require "spec.support.lua"

local _M = {}

local WORKERS, NAMES = 4, 4
local MAX_LEASE = 0.2         -- as the workers have it
local SETTLE = 3              -- seconds from one restart to the next, at least

local VARIANTS = {
    keeps = { args = { "--appendonly", "yes", "--appendfsync", "everysec" } },
    forgets = { forgets = true },
}
VARIANTS.unconfirmed = { args = VARIANTS.keeps.args, unconfirmed = true }

local function worker(seed, holds, accounts, variant, cluster)
    local argv = { "luajit", build.root .. "/spec/stress/fence_worker.lua", seed, holds,
        accounts.port, stdout = "pipe", env = lua.env() }
    if variant.unconfirmed then
        argv[#argv + 1] = "unconfirmed"
    end
    argv[#argv + 1] = "--"
    for _, uri in ipairs(cluster:uris()) do
        argv[#argv + 1] = uri
    end
    return proc.spawn(argv)
end

-- Whether some client admitted the server as it is now.
local function admitted(server)
    local marked = server:marked()
    return marked and marked.state == "a" and marked.life == server:life()
end

-- One at a time: the next one when the guard has let the last one vote again.
local function may_restart(variant, counts)
    return support.now() - counts.restarted > SETTLE
        and (not variant.forgets or not counts.last or admitted(counts.last))
end

-- Something happens to one server: it is killed and started again, or its locks, or its
-- counters, are deleted behind our backs.
local function disturb(cluster, variant, counts)
    local server = cluster[math.random(#cluster)]
    local dice = math.random()
    if dice < 0.05 and may_restart(variant, counts) then
        if variant.forgets and dice < 0.02 then
            server:call "FLUSHALL"
            counts.flushes = counts.flushes + 1
        else
            server:restart()
            counts.restarts = counts.restarts + 1
        end
        counts.last, counts.restarted = server, support.now()
    else
        local key = dice < 0.3 and "redlock:{name%d}:fence" or "name%d"
        for i = 1, NAMES do
            server:call("DEL", key:format(i))
        end
        counts.deletions = counts.deletions + 1
    end
end

local function check_writes(accounts, wrong)
    local writes = 0
    for i = 1, NAMES do
        local last = 0
        for _, token in ipairs(accounts:call("LRANGE", "name" .. i .. ":writes", 0, -1)) do
            if tonumber(token) < last then
                wrong[#wrong + 1] = ("name%d: %s was written after %.0f"):format(i, token, last)
            end
            last, writes = tonumber(token), writes + 1
        end
    end
    return writes
end

-- Four processes hold four fenced locks on five servers `holds` times in all.
-- Returns { wrong = list of texts, holds, writes, restarts, flushes, deletions, seconds }.
function _M.run(holds, seed, name)
    local variant = assert(VARIANTS[name or "keeps"], "no such variant")
    math.randomseed(seed)
    local from = support.now()
    local cluster = support.cluster(5, { new = true, args = variant.args }):admit(MAX_LEASE)
    local accounts = support.server()
    local result = { wrong = {}, holds = 0, restarts = 0, flushes = 0, deletions = 0,
        restarted = 0 }
    local running = {}
    for i = 1, WORKERS do
        running[i] = worker(seed * 100 + i, math.ceil(holds / WORKERS), accounts, variant,
            cluster)
    end
    for i = 1, WORKERS do
        repeat
            local line = running[i]:read_line(0.02)
            local done = line and line:match "^done (%d+)"
            if done then
                result.holds = result.holds + tonumber(done)
            elseif line then
                result.wrong[#result.wrong + 1] = line
            elseif not running[i]:alive() then
                error "a worker has died"
            else
                disturb(cluster, variant, result)
            end
        until done
        running[i]:wait(5)
    end
    result.writes = check_writes(accounts, result.wrong)
    result.seconds = support.now() - from
    accounts:kill()
    cluster:stop()
    return result
end

if arg and arg[0] and arg[0]:find "stress/fence.lua$" then
    local r = _M.run(tonumber(arg[1] or 200000), tonumber(arg[2] or os.time()), arg[3])
    for i = 1, math.min(#r.wrong, 20) do
        print(r.wrong[i])
    end
    print(("%d holds, %d writes accepted, %d restarts, %d flushes, %d rounds of deleted keys, "
        .. "%.0f s: %d wrong"):format(r.holds, r.writes, r.restarts, r.flushes, r.deletions,
        r.seconds, #r.wrong))
    support.cleanup()
    os.exit(#r.wrong == 0 and 0 or 1)
end

return _M
