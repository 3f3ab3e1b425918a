--- Cards: they tell people who holds a lock. In the lock's value a card follows the digits that
-- prove ownership: a space, the milliseconds since 1970 in hex, a space, a label.
-- c/engine/card.c writes cards. This file makes labels and reads cards, which are untrusted.
--
-- The room text/ turns values into text and back: cards, JSON, Redis's patterns, printable bytes,
-- hashes. It knows no servers, errors or options.

local io, rawget, tonumber, type = io, rawget, tonumber, type
local gsub, match, sub = string.gsub, string.match, string.sub

local _M = {}

--- Bytes of a label: RL_CARD_MAX of the core.
_M.MAX = 160

-- What the part of a value that servers reveal begins with.
local WHO = "^" .. ("%x"):rep(20)

local DECODED = { ["0"] = " ", ["5"] = "%" }

-- Other bytes could control a terminal, or break a line of a log. A cut leaves no half of "%p".
local function clean(text)
    local cut = #text > _M.MAX and gsub(sub(text, 1, _M.MAX), "%%$", "") or text
    return (gsub(cut, "[^ -~]", "?"))
end

-- The first line of a file, or "?".
local function line_of(path)
    local file = io.open(path)
    local line = file and file:read "*l"
    if file then
        file:close()
    end
    return line or "?"
end

function _M.host()
    return line_of "/proc/sys/kernel/hostname"
end

-- The name of the script; without one that of the process (nginx, resty).
local function program()
    local arg = rawget(_G, "arg")
    local script = type(arg) == "table" and type(arg[0]) == "string" and match(arg[0], "[^/]+$")
    return script or line_of "/proc/self/comm"
end

local usual

--- The label of a client, by its option: true: host, process id, program; a text; false: none.
-- @return a text, in which the core replaces "%p" with the process id; or false
function _M.label(given)
    if given == true then
        usual = usual or clean(_M.host() .. " %p " .. program())
        return usual
    end
    return given and clean(given)
end

--- The label of a client, or false, with the purpose of a lock, or nil.
function _M.with_job(label, job)
    return label and job and clean(label .. ": " .. job) or label
end

--- Reads a card: what follows the digits of a value on a server.
-- @return { label, since = seconds since 1970, by the holder's clock }; nil: not a card
function _M.read(text)
    local since, label = match(text, "^ (%x+) (.*)$")
    if not since or #since > 12 or #label > _M.MAX then
        return nil
    end
    -- Of an election's id only spaces and % are told as they are.
    label = gsub(clean(label), "^leader %S+", function(id)
        return (gsub(id, "%%2([05])", DECODED))
    end)
    return { label = label, since = tonumber(since, 16) / 1000 }
end

--- The part of a server's reply that tells one holder from another: hex digits, of the value (in
-- a refusal) or of its digest (in a peek), and the card. A number before them, of a key or a
-- ticket, is cut off.
-- @return the text; nil: the reply names no holder
function _M.who(data)
    if not match(data, WHO) then
        data = match(data, "^%d+ (.*)$") or data
    end
    return data ~= "" and data or nil
end

--- The card after the first `digits` digits; nil: none.
function _M.behind(who, digits)
    return match(who, WHO) and _M.read(sub(who, digits + 1))
end

return _M
