--- client:using: runs a function while a lock is held, and releases the lock whatever happens.

local errors = require "redlock.runtime.errors"
local fair_lock = require "redlock.kinds.fair_lock"
local fenced_lock = require "redlock.kinds.fenced_lock"
local fenced_write_lock = require "redlock.kinds.fenced_write_lock"
local lock = require "redlock.lock.lock"
local multi_lock = require "redlock.kinds.multi_lock"
local permit_token = require "redlock.kinds.permit_token"
local plain_lock = require "redlock.kinds.plain_lock"
local read_write_lock = require "redlock.kinds.read_write_lock"
local semaphore = require "redlock.kinds.semaphore"
local validate = require "redlock.runtime.validate"

local type = type

local _M = {}

local OPTIONS = { wait = true, lease = true, owner = true, fenced = true, kind = true,
    permits = true, label = true, traceparent = true }

-- Kinds for a single name, and those that may have tokens.
local KINDS = { plain = plain_lock, fenced = fenced_lock, fair = fair_lock,
    read = read_write_lock.reading, write = read_write_lock.writing }
local FENCED = { fenced = fenced_lock, write = fenced_write_lock, permit = semaphore }

-- @return the lock to be held, whose owner is given or will be the running coroutine
local function view_of(client, name, opts)
    local kind, fenced = opts.kind, validate.flag("fenced", opts.fenced)
    if kind == nil then
        kind = type(name) == "table" and "multi" or opts.permits ~= nil and "permit"
            or fenced and "fenced" or "plain"
    end
    if fenced and not FENCED[kind] then
        validate.bad("fenced", 'true is for the kinds "fenced", "write" and "permit" alone')
    end
    if (opts.permits ~= nil) ~= (kind == "permit") then
        validate.bad("permits", 'needed for the kind "permit", and for no other')
    elseif kind == "permit" then
        if opts.owner ~= nil then
            validate.bad("owner", "a permit is its own owner")
        end
        local whole = semaphore.new(client, name, opts.permits, { fenced = fenced })
        return semaphore.permit_of(whole)
    end
    local whose = { owner = opts.owner, label = opts.label, traceparent = opts.traceparent }
    if kind == "multi" then
        return multi_lock.new(client, name, whose)
    elseif not KINDS[kind] then
        validate.bad("kind", '"plain", "fenced", "read", "write", "fair", "multi" or "permit" is '
            .. "needed")
    end
    return lock.new(client, (fenced and FENCED or KINDS)[kind], name, whose)
end

-- @return the hold of a lock, and the field that counts its entries. A writer may read as well,
--   without a hold for that.
local function entered_by(l)
    local owner = lock.owner_of(l)
    local hold = lock.hold_of(l, owner)
    if hold or not l.within then
        return hold, "count"
    end
    hold = l.client.holds:get(owner, l.within)
    return hold and hold.reads and hold, "reads"
end

-- Unlocks as often as the lock was entered since its count was `before`. entered: the hold then.
-- @return true: held until now, or unlocked by the function itself; false: it was lost
local function unlock_to(l, entered, before)
    local held = l:isValid() and not entered.lost
    local hold, count = entered_by(l)
    if not hold or hold[count] <= before then
        return not entered.lost
    end
    hold[count] = before + 1
    local ok, err = l:unlock()
    -- A release without an answer says nothing about the time before it.
    return held and (ok or err.code == "unknown") or false
end

local function use(l, opts, fn)
    local got, token
    local before = l:getHoldCount()
    if opts.wait == nil then
        got, token = l:lock(opts.lease)
    else
        got, token = l:tryLock(opts.wait, opts.lease)
    end
    if l.semaphore then
        got, token = permit_token.taken(l, got, token)
    end
    if not got then
        return nil, token        -- the error
    end
    local hold = entered_by(l)
    return errors.around(fn, function() return unlock_to(l, hold, before) end, l,
        token or hold.fence)
end

function _M.using(client, name, opts, fn)
    if fn == nil and type(opts) == "function" then
        opts, fn = nil, opts
    end
    opts = validate.options("options", opts, OPTIONS)
    validate.is_function("fn", fn)
    local l = view_of(client, name, opts)
    local enclose = client.host.enclose
    if enclose and l.owner == nil then
        return enclose(l, use, opts, fn)
    end
    return use(l, opts, fn)
end

return _M
