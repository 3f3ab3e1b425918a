--- How A and B take what excludes them, for each kind.
--
-- Each: { odd: how many odd choices a run may have; key: whose ends are moments; a, b:
-- function(client) -> what is taken; tokens: it has some }. What is taken has tryLock(wait, lease),
-- lock(), unlock(), remaining() and onLost(fn).

-- With an owner of its own, so that any coroutine can ask for its validity.
local function lock_of(getter)
    return function(client) return client[getter](client, "x", { owner = {} }) end
end

-- A permit is an object of its own for each hold.
local function permit(client)
    local self, semaphore, taken = {}, client:getSemaphore("x", 1), nil
    function self.tryLock(_, wait, lease)
        local got, err = semaphore:tryAcquire(wait, lease)
        taken = got or taken
        return got and true, err
    end
    function self.lock()
        local got, err = semaphore:acquire()
        taken = got or taken
        return got, err
    end
    function self.unlock() return taken:release() end
    function self.remaining() return taken and taken:remaining() or 0 end
    function self.onLost(_, fn) taken:onLost(fn) end
    return self
end

local function election(client)
    local self, told = {}, nil
    local one = client:getElection("x", { id = "someone", on_lost = function() told() end })
    function told() end
    function self.tryLock(_, wait) return one:campaign(wait) end
    function self.lock() return one:campaign() end
    function self.unlock() return one:resign() end
    function self.remaining() return one:remaining() end
    function self.onLost(_, fn) told = fn end
    return self
end

local plain, fenced, fair = lock_of "getLock", lock_of "getFencedLock", lock_of "getFairLock"

return {
    plain = { odd = 3, key = "x", a = plain, b = plain, nests = true },
    fenced = { odd = 3, key = "x", a = fenced, b = fenced, tokens = true, nests = true },
    deaf = { odd = 2, key = "x", a = plain, b = plain, deaf = true },
    before = { odd = 2, key = "x", a = plain, b = plain, before = true },
    fair = { odd = 2, key = "x", a = fair, b = fair },
    ["read-write"] = { odd = 2, key = "x",
        a = function(client) return client:getReadWriteLock("x", { owner = {} }):readLock() end,
        b = function(client) return client:getReadWriteLock("x", { owner = {} }):writeLock() end },
    permit = { odd = 2, key = "redlock:{x}:slots", a = permit, b = permit },
    election = { odd = 2, key = "x", a = election, b = election, tokens = true },
}
