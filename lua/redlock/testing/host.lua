--- The host of clients in a world (see host/plain.lua).
--
-- A wait suspends coroutines that the world started. Any other caller waits by letting the world's
-- time pass, with all that happens in it, until the answer has come.

local library = require "redlock.testing.library"
local plain = require "redlock.host.plain"

local error, huge = error, math.huge

local _M = { name = "world", nap = huge, owner = plain.owner, alive = plain.alive }

local world, cores, errors, rounds

local function nothing()
end

_M.attend, _M.look_again, _M.look_within = nothing, nothing, nothing
_M.drop, _M.let_go = nothing, nothing

--- Makes this the host of a world, or nil: of none; part(name) loads modules of its library.
function _M.enter(new, part)
    world = new
    cores, rounds = part "redlock.runtime.cores", part "redlock.runtime.rounds"
    errors = part "redlock.runtime.errors"
end

--- Has the holds of ended coroutines released later.
function _M.took(_, _, seconds)
    world:patrol(seconds)
end

-- ---- waiting ---------------------------------------------------------------------

local function always()
    return true
end

_M.can_wait, _M.concurrent = always, always

function _M.wait(round)
    local C = library.core()
    local outcome = C.rl_round_outcome(round)
    if outcome ~= 0 then
        return outcome
    end
    local task = world:this_task()
    if task then
        local future = task.future
        if future and future.cancelled then
            error(future.cancelled, 0)
        end
        return rounds.suspend(round)
    end
    C.rl_round_notify(round)
    world:pass(function() return C.rl_round_outcome(round) ~= 0 end)
    return C.rl_round_outcome(round)
end

function _M.defer(fn)
    world:spawn(fn)
end

--- The spec sees what fails.
function _M.log(text)
    world:fail("redlock: " .. text)
end

-- ---- clients ---------------------------------------------------------------------

function _M.accept(opts)
    if opts.signals then
        error("redlock.testing: there are no signals in a world", 0)
    end
    if not world then
        error("redlock.testing: the world of this library is over", 0)
    end
end

function _M.poll_at()
    return huge
end

function _M.open(client, settings, nodes)
    world:connect(client, nodes)
    return cores.open(settings, nodes)
end

function _M.close(client)
    cores.close(client.core)
    world:disconnect(client)
end

-- ---- futures ---------------------------------------------------------------------

function _M.start(future, body)
    future.sleepers = {}
    future.client:open()
    future.task = world:spawn(body, future)
end

function _M.cancel(future)
    if not world:interrupt(future.task, future.cancelled) and not future.done then
        future:finish(false, errors.new("cancelled", "a future"))
    end
end

return _M
