--- Owners in nginx: a request or, in client:using(), one of its coroutines.
--
-- The request owns what getLock() takes: its light threads share it, and it survives phases. (Not
-- the coroutine: the module reuses a thread object for many requests.) In using() the coroutine
-- owns it, as long as its outermost using() runs: a scope. So light threads exclude each other
-- there, also those of one timer that runs for ever and does many jobs.
--
-- Only the request's ngx.ctx, or the stack of the scope's coroutine, refers to an owner. nginx
-- reports the end of a request. Only the collector notices a coroutine that was killed earlier, or
-- a request that went on without it (ngx.exec).

local ffi = require "ffi"
local finalizers = require "redlock.runtime.finalizers"
local get_request = require "resty.core.base".get_request
local nginx_end = require "redlock.host.nginx_end"

local getmetatable, newproxy, pairs, pcall, rawget, rawset, setmetatable, tonumber =
    getmetatable, newproxy, pairs, pcall, rawget, rawset, setmetatable, tonumber
local getfenv, setfenv, getinfo = debug.getfenv, debug.setfenv, debug.getinfo
local running, status = coroutine.running, coroutine.status
local ngx = ngx
local get_phase = ngx.get_phase

local _M = {}

-- ---- requests --------------------------------------------------------------------

local Owner = {}
local NO_REQUEST = setmetatable({}, Owner)

-- The key of a request's owner in its ngx.ctx.
local TOKEN = {}

-- Gives owners a finalizer, which tables do not have.
local SENTINEL = newproxy(true)

local function new_owner(fields)
    fields.sentinel = newproxy(SENTINEL)
    setfenv(fields.sentinel, fields)
    return setmetatable(fields, Owner)
end

local at_end                 -- set by on_end()

local function end_owner(owner)
    owner.connection = nil       -- find_or_make() must not find it by its address
    owner.ended = true
    at_end(owner)
end

getmetatable(SENTINEL).__gc = function(sentinel)
    local owner = getfenv(sentinel)
    if getmetatable(owner) == Owner then
        end_owner(owner)
    end
end

-- Ends an owner whose request has ended, and the scopes of its coroutines.
local function end_owner_and_scopes(owner)
    end_owner(owner)
    for scope in pairs(owner.scopes or {}) do
        end_owner(scope)
    end
end

--- Sets fn(owner), called when an owner is gone, also by the collector: it must not wait or fail.
function _M.on_end(fn)
    at_end = fn
end

--- Looks for requests that have ended.
function _M.find_ended()
    nginx_end.each(end_owner_and_scopes)
end

-- A handshake's owner outlives it: the requests of its connection inherit it.
local function await_end(owner)
    if owner.connection or get_phase() == "timer" then
        owner.count = nginx_end.await(get_request(), owner, end_owner_and_scopes)
    end
    owner.is_awaited = true
end

-- ngx.exec empties ngx.ctx, but the request still has its address and numbers. Its subrequests have
-- the same numbers, but other addresses.
local by_address = setmetatable({}, { __mode = "v" })

local function address()
    return tonumber(ffi.cast("intptr_t", get_request()))
end

local function numbers()
    return address(), ngx.var.connection, ngx.var.connection_requests
end

local function is_of(owner, connection, number)
    return owner.connection == connection and owner.number == number
end

local function find_or_make()
    local ok, at, connection, number = pcall(numbers)
    if not ok then            -- in a timer or TLS handshake
        return new_owner { life = 0 }
    end
    local owner = by_address[at]
    if owner and is_of(owner, connection, number) then
        owner.life = owner.life + 1
        return owner
    end
    owner = new_owner { connection = connection, number = number, main = not ngx.is_subrequest,
        life = 0 }            -- how often ngx.exec ended its coroutines
    by_address[at] = owner
    return owner
end

local function request()
    if finalizers.are_last() or not get_request() then
        return NO_REQUEST
    end
    local ctx = ngx.ctx
    local owner = rawget(ctx, TOKEN)     -- requests inherit a handshake's
    if not owner then
        owner = find_or_make()
        rawset(ctx, TOKEN, owner)
    end
    return owner
end

-- ---- coroutines ------------------------------------------------------------------

-- Stands for a coroutine without keeping it alive.
local boxes = setmetatable({}, { __mode = "k" })

local function box_of(co)
    local box = boxes[co]
    if not box then
        box = setmetatable({ co }, { __mode = "v" })
        boxes[co] = box
    end
    return box
end

-- coroutine -> the last scope that began on it
local scopes = setmetatable({}, { __mode = "kv" })

local function ended(co, ...)
    scopes[co] = nil
    return ...
end

-- Its frame on a coroutine's stack shows that the coroutine's last scope lasts: the coroutine may
-- have been killed, and its thread object may run something else since.
local function run_scope(co, run, ...)
    return ended(co, run(...))
end

local function is_on_stack(scope)
    local co, level = scope.box[1], 0
    local frame = co and scopes[co] == scope and getinfo(co, level, "f")
    while frame do
        if frame.func == run_scope then
            return true
        end
        level = level + 1
        frame = getinfo(co, level, "f")
    end
    return false
end

-- Whether a scope lasts: of the running request, or of one that shares its ngx.ctx, the status of
-- whose coroutines is not known here.
local function lasts(scope)
    local co = scope.box[1]
    return co ~= nil and (scope.at ~= address() or status(co) ~= "dead") and is_on_stack(scope)
end

-- Whether a coroutine, of this or another request, waits for a subrequest.
local function captures(box)
    local frame = box[1] and getinfo(box[1], 0, "f")
    local fn, location = frame and frame.func, ngx.location      -- stream {} has none
    return fn ~= nil and location ~= nil
        and (fn == location.capture or fn == location.capture_multi)
end

-- ---- who asks --------------------------------------------------------------------

local function valid(holds, owner, id)
    local hold = holds:get(owner, id)
    return hold and holds:remaining(hold) > 0 and hold or nil
end

--- The owner that asks: the scope if it has the lock, or `within`, the id of another one whose
-- owner may enter it as well (a reader's is the writer); else the request.
function _M.owner(holds, id, within)
    local owner, co = request(), running()
    local scope = co and scopes[co]
    local has = scope and (holds:get(scope, id) or within and holds:get(scope, within))
    if has and not holds:get(owner, id) and lasts(scope) then
        return scope
    end
    return owner
end

--- All owners of the running coroutine, and of the request's coroutines that have ended.
function _M.owners()
    local owner, co = request(), running()
    local list, phase = { owner }, owner ~= NO_REQUEST and get_phase()
    for scope in pairs(owner.scopes or {}) do
        if phase == "log" or scope.box == boxes[co] or not lasts(scope) then
            list[#list + 1] = scope
        end
    end
    return list
end

--- Notes which coroutine of a request took a hold.
function _M.taken(hold, owner)
    local mine, co = getmetatable(owner) == Owner, running()
    local whose = mine and (owner.of or owner) or request()
    if not co or whose == NO_REQUEST then
        return
    elseif not whose.is_awaited then
        await_end(whose)
    end
    if not mine then
        hold.by = setmetatable({ whose }, { __mode = "v" })
        nginx_end.count(nil, 0, hold.lease)
        return
    end
    if not hold.counted then     -- it must not refer to the owner
        hold.counted = whose.count
        nginx_end.count(whose.count, 1, hold.lease)
    end
    if whose ~= owner then
        return
    end
    local box, phase, last = box_of(co), get_phase(), owner.last
    if not last or last.box ~= box or last.phase ~= phase or last.life ~= owner.life then
        last = { box = box, phase = phase, life = owner.life }
        owner.last = last
    end
    hold.taker = last
end

--- Whether the request that has a hold, or took it for another owner, may still run.
function _M.is_of_running(hold, owner)
    local whose = getmetatable(owner) == Owner and owner or hold.by and hold.by[1]
    return whose ~= nil and whose ~= NO_REQUEST and not whose.ended
end

function _M.left(hold)
    nginx_end.count(hold.counted, -1)
    hold.counted = nil
end

-- Whether the coroutine that took a hold runs beside the one that asks, in the same request.
-- (Phases run one after the other, and a resumed coroutine runs in place of its resumer.)
local function is_beside(hold, owner, co)
    local taker = hold.taker
    local other = taker and taker.box[1]
    if not other or other == co or taker.life ~= owner.life or taker.phase ~= get_phase() then
        return false
    end
    local state = status(other)
    return state ~= "dead" and state ~= "normal"
end

-- The owner of what using() takes on the running coroutine: the scope; or the request if this
-- coroutine, or one that has ended, took the lock for it.
local function owner_for(lock, owner, scope, co)
    local holds = lock.client.holds
    local function held_by(who)
        return valid(holds, who, lock.id) or lock.within and valid(holds, who, lock.within)
    end
    local hold = not held_by(scope) and held_by(owner)
    if not hold or is_beside(hold, owner, co) then
        return scope
    end
    _M.taken(hold, owner)
    return owner
end

--- Runs run(lock, ...), which takes and releases the lock for the running coroutine, and returns
-- its results.
function _M.enclose(lock, run, ...)
    local owner, co = request(), running()
    if not co or owner == NO_REQUEST then
        lock.owner = owner
        return run(lock, ...)
    end
    local scope = scopes[co]
    if scope and lasts(scope) then
        lock.owner = owner_for(lock, owner, scope, co)
        return run(lock, ...)
    end
    scope = new_owner { of = owner, box = box_of(co), at = address() }
    owner.scopes = owner.scopes or setmetatable({}, { __mode = "k" })
    owner.scopes[scope] = true
    scopes[co] = scope
    lock.owner = owner_for(lock, owner, scope, co)
    return run_scope(co, run, lock, ...)
end

-- ---- waiting in vain -------------------------------------------------------------

-- Whether a lasting scope waits for the asking coroutine, of its request or of a subrequest that
-- shares its ngx.ctx.
local function waits(scope)
    if scope.at ~= address() then
        return captures(scope.box)
    end
    return status(scope.box[1]) == "normal"
end

-- A hold of the same request whose owner may be unable to go on before the asker does, or nil.
-- Releases the holds of killed coroutines: something may refer to those for long.
local function held_beside(holds, id, owner, asker)
    local hold = asker ~= owner and valid(holds, owner, id)
    if hold then
        return hold
    end
    for scope in pairs(owner.scopes or {}) do
        hold = scope ~= asker and valid(holds, scope, id)
        if hold and not lasts(scope) then
            holds.client:free_owner(scope)
        elseif hold and (asker == owner or waits(scope)) then
            return hold
        end
    end
end

-- Like held_beside(), for a parent request that waits for a subrequest.
local function held_above(holds, id, parent)
    local hold = valid(holds, parent, id)
    if hold and (parent.main or hold.taker and captures(hold.taker.box)) then
        return hold
    end
    for scope in pairs(parent.scopes or {}) do
        hold = valid(holds, scope, id)
        if hold and captures(scope.box) and is_on_stack(scope) then
            return hold
        end
    end
end

--- @return the hold that keeps a name closed if its owner waits, or may wait, for the asker, so
--   that to wait for the name would be in vain; or nil
function _M.in_vain(holds, id, asker)
    if getmetatable(asker) ~= Owner then
        return nil
    end
    local owner = asker.of or asker
    local hold = held_beside(holds, id, owner, asker)
    if hold or owner.main ~= false then
        return hold
    end
    for _, parent in pairs(by_address) do
        hold = parent ~= owner and is_of(parent, owner.connection, owner.number)
            and held_above(holds, id, parent)
        if hold then
            return hold
        end
    end
end

return _M
