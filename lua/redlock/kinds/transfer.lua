--- Transfers: a hold on its way to another process, as one printable string.

local closing = require "redlock.lock.closing"
local encoding = require "redlock.text.encoding"
local errors = require "redlock.runtime.errors"
local ffi_values = require "redlock.runtime.ffi_values"
local handover = require "redlock.lock.handover"
local hooks = require "redlock.lock.hooks"
local limits = require "redlock.runtime.limits"
local lock = require "redlock.lock.lock"
local options = require "redlock.servers.options"
local printable = require("redlock.text.encoding").printable
local rounds = require "redlock.runtime.rounds"

local error, pcall, tonumber = error, pcall, tonumber
local format, match, sub = string.format, string.match, string.sub

local _M = {}

local VALUE_LEN = limits.VALUE_LEN
local FORMAT = "redlock1."           -- later formats have larger numbers
local hex, unhex = encoding.hex, encoding.unhex

-- A parcel is { kind, prefix (of the client), name, value, ms (of the lease), token (or the slot of
-- a permit; 0: none), fence (the token of a permit, or nil) }. The card of a value comes last, in
-- hex.
local function to_text(parcel)
    local digits, card = sub(parcel.value, 1, VALUE_LEN), sub(parcel.value, VALUE_LEN + 1)
    return encoding.add_checksum(FORMAT .. format("%s.%s.%s.%s.%d.%.0f%s%s", hex(parcel.kind),
        hex(parcel.prefix), hex(parcel.name), digits, parcel.ms, parcel.token,
        parcel.fence and format("+%.0f", parcel.fence) or "",
        card ~= "" and "." .. hex(card) or ""), ".")
end

-- @return the parcel; nil: to_text() did not make the text
local function parse(text)
    local kind, prefix, name, value, ms, token, fence, card = match(
        encoding.strip_checksum(text, ".") or "",
        "^redlock1%.(%x+)%.(%x*)%.(%x+)%.(%x+)%.(%d+)%.(%d+)(%+?%d*)%.?(%x*)$")
    if not kind or #value ~= VALUE_LEN or #token > limits.TOKEN_DIGITS
        or #fence > limits.TOKEN_DIGITS + 1
        or fence ~= "" and (tonumber(sub(fence, 2)) or 0) < 1
        or #kind % 2 ~= 0 or #prefix % 2 ~= 0 or #name % 2 ~= 0 or #name > 2 * limits.MAX_NAME
        or #card % 2 ~= 0 or VALUE_LEN + #card / 2 > limits.VALUE_MAX then
        return nil
    end
    return { kind = unhex(kind), prefix = unhex(prefix), name = unhex(name),
        value = value .. unhex(card), ms = tonumber(ms), token = tonumber(token),
        fence = tonumber(sub(fence, 2)) }
end

--- Gives the hold away; it ends with its lease unless client:import() takes it over. It gets a new
-- value first: heals and attempts that are late may bring the old one back, after an import.
function _M.export(self)
    local client, owner = self.client, lock.owner_of(self)
    local hold, err = lock.valid_hold(self, owner)
    if not hold then
        return nil, err
    elseif not self.primitive.import_script then
        return lock.failure(self, "unsupported")
    elseif not client.host.can_wait() then
        return lock.failure(self, "phase")
    end
    client.holds:remove(owner, self.id)
    hooks.gave_up { lock = self, wait = hold.wait }
    local parcel = { kind = self.primitive.name, prefix = client.options.prefix, name = self.name,
        fence = hold.fence, ms = rounds.to_ms(hold.seconds), token = rounds.token(hold.lease) or 0 }
    local call = { lock = self, lease_out = rounds.lease_out() }
    local ok, handle, round = pcall(rounds.import, call, ffi_values.value(hold.lease), hold.seconds,
        parcel.token, true)
    if not ok or not handle then
        rounds.give(hold.lease, "orphan")
        if not ok then
            rounds.interrupted(call)
            error(handle, 0)
        end
        err = rounds.failure(client, self, round)
        if err.code == "lost" then
            errors.because(err, self, closing.reason(err, true))
        end
        return nil, err
    end
    rounds.give(hold.lease, "disown")
    rounds.claim(call)
    parcel.value = ffi_values.value(handle)
    rounds.give(handle, "disown")
    return to_text(parcel)
end

--- See client:import. prims: name -> primitive, for all kinds that can be imported.
function _M.import(client, prims, text, opts)
    local parcel = parse(text)
    if not parcel and match(text, "^redlock%d+%.")
        and sub(text, 1, #FORMAT) ~= FORMAT then
        return nil, errors.new("config", "the transfer is of another version of the library")
    end
    local prim = parcel and prims[parcel.kind]
    local seconds = parcel and parcel.ms / 1000
    local fits = prim and prim.import_script and seconds <= options.longest_lease(client.options)
        and seconds >= options.min_lease(client.options)
    if not fits or lock.is_reserved(client, parcel.name)
        or prim.names and not prim.names(parcel.name)
        or (prim.vote ~= "yes") ~= (parcel.token > 0) or parcel.fence and not prim.recount then
        return nil, errors.new("config", "the transfer was changed on its way, is not of this "
            .. "kind of lock, or has a lease over max_lease")
    elseif parcel.prefix ~= client.options.prefix then
        return nil, errors.new("config", format("the transfer is of a client with prefix '%s', "
            .. "which is '%s' here: the key would be another one", printable(parcel.prefix),
            printable(client.options.prefix)))
    end
    local self = lock.new(client, prim, parcel.name, opts)
    local ok, err = lock.open_to_wait(self)
    if ok then
        ok, err = handover.import(self, lock.owner_of(self), parcel.value, parcel.token, seconds,
            true)
    end
    if ok and parcel.fence then
        return prim.recount(self, parcel.fence)
    end
    return ok and self, err
end

return _M
