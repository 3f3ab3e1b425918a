--- How A and B take what excludes them, for each kind.
--
-- Each: { key: whose ends are moments; a, b: function(client) -> what is taken; tokens: it has
-- some; nests: it may be entered twice }. What is taken has tryLock(wait, lease), lock(), unlock(),
-- remaining() and onLost(fn).

-- With an owner of its own, so that any coroutine can ask for its validity.
local function lock_of(getter)
    return function(client) return client[getter](client, "x", { owner = {} }) end
end

-- A permit is an object of its own for each hold.
local function permit(client)
    local semaphore, taken = client:getSemaphore("x", 1), nil
    local function note(got, err)
        taken = got or taken
        return got and true, err
    end
    return {
        tryLock = function(_, wait, lease) return note(semaphore:tryAcquire(wait, lease)) end,
        lock = function() return note(semaphore:acquire()) end,
        unlock = function() return taken:release() end,
        remaining = function() return taken and taken:remaining() or 0 end,
        onLost = function(_, fn) taken:onLost(fn) end,
    }
end

local function election(client)
    local told
    local one = client:getElection("x", { id = "someone",
        on_lost = function() return told and told() end })
    return {
        tryLock = function(_, wait) return one:campaign(wait) end,
        lock = function() return one:campaign() end,
        unlock = function() return one:resign() end,
        remaining = function() return one:remaining() end,
        onLost = function(_, fn) told = fn end,
    }
end

local function read_write(which)
    return function(client)
        local pair = client:getReadWriteLock("x", { owner = {} })
        return pair[which](pair)
    end
end

local plain, fenced, fair = lock_of "getLock", lock_of "getFencedLock", lock_of "getFairLock"

return {
    plain = { key = "x", a = plain, b = plain, nests = true },
    fenced = { key = "x", a = fenced, b = fenced, tokens = true, nests = true },
    deaf = { key = "x", a = plain, b = plain, deaf = true },
    before = { key = "x", a = plain, b = plain, before = true },
    fair = { key = "x", a = fair, b = fair },
    ["read-write"] = { key = "x", a = read_write "readLock", b = read_write "writeLock" },
    permit = { key = "redlock:{x}:slots", a = permit, b = permit },
    latch = { key = "redlock:{x}:latch" },
    election = { key = "x", a = election, b = election, tokens = true },
}
