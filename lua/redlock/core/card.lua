--- Cards: whose a lock is, for people. A card rides in the lock's value behind the digits that
-- prove it: a space, the milliseconds since 1970 in hex, a space, a label (c/engine/card.c writes
-- it). Everything else here reads what others wrote.

local io, rawget, tonumber, type = io, rawget, tonumber, type
local gsub, match, sub = string.gsub, string.match, string.sub

local _M = {}

--- Bytes of a label: RL_CARD_MAX of the core.
_M.MAX = 160

-- What a value begins with, as far as servers give it away.
local WHO = "^" .. ("%x"):rep(20)

-- All other bytes could act on a terminal, or break a line of a log.
local function clean(text)
    return (gsub(sub(text, 1, _M.MAX), "[^ -~]", "?"))
end

local function host()
    local file = io.open "/proc/sys/kernel/hostname"
    local name = file and file:read "*l"
    if file then
        file:close()
    end
    return name or "?"
end

-- What runs here: a script's name; without one that of the process (nginx, resty).
local function program()
    local arg = rawget(_G, "arg")
    local script = type(arg) == "table" and type(arg[0]) == "string" and match(arg[0], "[^/]+$")
    if script then
        return script
    end
    local file = io.open "/proc/self/comm"
    local name = file and file:read "*l"
    if file then
        file:close()
    end
    return name or "?"
end

local usual

--- The label of a client.
-- @param given  the option: true: host, number of the process, program; a text; false: none
-- @return a text, in which the core makes "%p" the number of the process; or false
function _M.label(given)
    if given == true then
        usual = usual or clean(host() .. " %p " .. program())
        return usual
    end
    return given and clean(given)
end

--- A label with what a lock is for.
-- @param label  of the client, or false
-- @param job    a text, or nil
function _M.with_job(label, job)
    return label and job and clean(label .. ": " .. job) or label
end

--- Reads a card.
-- @param text  what is behind the digits of a value, as a server has it
-- @return { label, since = seconds since 1970, by the holder's clock }; nil: it is none
function _M.read(text)
    local since, label = match(text, "^ (%x+) (.*)$")
    if not since or #since > 12 or #label > _M.MAX then
        return nil
    end
    return { label = clean(label), since = tonumber(since, 16) / 1000 }
end

--- What tells one holder from others in what a server says of it: a text that begins with hex
-- digits, of the value (a refusal) or a digest of it (a peek), and goes on with the card. The
-- number of a key or a ticket before it is taken off.
-- @return the text; nil: it names nobody
function _M.who(data)
    if not match(data, WHO) then
        data = match(data, "^%d+ (.*)$") or data
    end
    return data ~= "" and data or nil
end

--- The card behind so many digits; nil: there is none.
function _M.behind(who, digits)
    return match(who, WHO) and _M.read(sub(who, digits + 1))
end

return _M
