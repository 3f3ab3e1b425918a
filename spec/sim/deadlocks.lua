--- Schedules in which coroutines hold a name while they wait for another, in any order, and the
-- library looks for deadlocks among them (option deadlocks), while everything fails. What it tells
-- of is to be one; and all are found where they wait without an end: else they were never served.

local base = require "spec.sim.sim"
local workload = require "spec.sim.workload"

local huge, ipairs, max, min = math.huge, ipairs, math.max, math.min
local MS, SECOND = base.MS, base.SECOND

local _M = {}

--- Whether a schedule looks for deadlocks. Draws nothing for others.
function _M.choose(sim, opts)
    if opts.deadlocks or opts.deadlocks == nil and sim:its_turn(521, opts) then
        sim.prefix, sim.family, sim.lists, sim.small = nil, nil, nil, false
        -- Fenced locks may stay on bare majorities that have one server in common, where a counter
        -- is ahead: that all say the same is not to be had then.
        sim.deadlocks = { endless = sim:chance(70) and sim.fenced == 0 }
    end
end

--- How much longer it may take until everybody is served.
function _M.patience_us(sim)
    return #sim.tasks * 10 * SECOND
end

-- ---- what is so ------------------------------------------------------------------

-- The times at which it is so for a coroutine, of which one is added.
local function begin(list, name, sim)
    local time = { name = name, from = sim.now(), to = huge }
    list[#list + 1] = time
    return time
end

local function ends_by(t, time)
    return min(time.to, t.process.died_at)
end

-- Whether, at one and the same moment, somebody had each name of a chain, from the i-th on, who
-- waited for the next one; and the caller waits for the first one, and has the last one.
local function is_true(sim, caller, chain, i, from, to)
    local last = i == #chain
    for _, t in ipairs(last and { caller } or sim.tasks) do
        local who = chain[i].label
        local fits = not who or who == "process " .. t.process.index
        for _, has in ipairs(fits and t.has or {}) do
            for _, waits in ipairs(has.name == chain[i].name and t.waits or {}) do
                local begins = max(from, has.from, waits.from)
                local ends = min(to, ends_by(t, has), ends_by(t, waits))
                if waits.name == chain[last and 1 or i + 1].name and begins < ends
                    and (last or is_true(sim, caller, chain, i + 1, begins, ends)) then
                    return true
                end
            end
        end
    end
    return false
end

local function judge(sim, e)
    local names = {}
    for i, one in ipairs(e.chain) do
        names[i] = one.name
    end
    local t, text = sim.tasks[e.owner], table.concat(names, ", ")
    sim:log(t.lane, "note", "a deadlock: " .. text)
    if not is_true(sim, t, e.chain, 1, 0, sim.now()) then
        sim:violated("a deadlock is one", t.lane .. " is told of " .. text)
    end
end

--- The options of a client that are about it.
function _M.options(sim)
    local some = sim.deadlocks
    return some and (some.endless and "end" or sim:pick { "tell", "end", "end", false }),
        some and function(e)
            if e.type == "deadlock" then
                judge(sim, e)
            end
        end or nil
end

-- ---- the life of a coroutine -----------------------------------------------------

-- Waits for a lock, for as long as it takes or not.
-- @return it, once it is held
local function take(sim, t, name, endless)
    local lock = workload.some_lock(sim, t.process.client, name)
    local waits = begin(t.waits, name, sim)
    local wait = not (endless and sim.deadlocks.endless) and sim:between(500, 9000) / 1000 or nil
    local ok, hold = workload.take(sim, t, lock, wait, nil)
    waits.to = sim.now()
    if ok then
        return { lock = lock, hold = hold, time = begin(t.has, name, sim) }
    end
end

local function let_go(sim, t, taken)
    taken.time.to = sim.now()
    workload.let_go(sim, t, taken.lock, taken.hold)
end

local function two_names(sim)
    local i, k = sim:between(1, #sim.names), sim:between(1, #sim.names - 1)
    return sim.names[i], sim.names[k < i and k or k + 1]
end

function _M.run(sim, t)
    t.has, t.waits = {}, {}
    if t.id == 1 and sim.new_cluster then
        workload.init(sim, t)
    end
    for _ = 1, sim:between(2, 5) do
        if sim.calm_at then
            break
        end
        local first, second = two_names(sim)
        local outer = take(sim, t, first, true)
        if outer then
            sim:sleep(sim:below(SECOND))
            local inner = take(sim, t, second, true)
            if inner then
                sim:sleep(sim:below(300 * MS))
                let_go(sim, t, inner)
            end
            let_go(sim, t, outer)
        end
        sim:sleep(sim:below(300 * MS))
    end
    while not sim.calm_at do
        sim:sleep(SECOND)
    end
    for _, name in ipairs(sim.names) do
        local taken = take(sim, t, name)
        while not taken do
            sim:sleep(50 * MS)
            taken = take(sim, t, name)
        end
        let_go(sim, t, taken)
    end
end

return _M
