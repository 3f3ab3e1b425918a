--- The room of the command `redlock`. main.lua dispatches to a verb, a file of its name; help.lua
-- lists the verbs and flags.lua their flags. config.lua makes a client from settings. run and lead
-- use holds, attend and supervisor.lua; process.lua has forks and signals. The library must not
-- require this room.
--
-- This file reads command lines: options with and without values, names, and what follows "--".

local flags = require "redlock.cli.flags"

local _M = {}

--- Ends the command with an error message. status: the exit status; default: 125.
function _M.fail(text, status)
    error({ text = text, status = status or 125 }, 0)
end

local verb = ""               -- of the line that is read

local function usage(text)
    _M.fail(text .. "\nTry: redlock " .. verb .. "--help")
end

local COMMON = flags.kinds()

--- Joins words of a command line for a message, without control characters. It hides what follows
-- "://", as an unquoted list of URIs, which may have passwords, ends up among the names.
function _M.words(list, from)
    local shown = {}
    for i = from, #list do
        shown[#shown + 1] = (list[i]:gsub("://.*", "://..."):gsub("%c", "?"))
    end
    return table.concat(shown, " ")
end

local function value_of(option, kind, text)
    if text == nil then
        usage(option .. " needs a value")
    elseif kind == "=S" then
        local seconds = tonumber(text)
        return seconds and seconds >= 0 and seconds     -- also excludes NaN
            or usage(option .. " needs a number of seconds")
    end
    return text
end

--- Finds the verb: options of all verbs may precede it.
-- @return its index in list; or that of --help, --version, or another word that is no such option
function _M.command(list)
    local i = 1
    while list[i] and list[i] ~= "--help" and list[i] ~= "-h" do
        local kind, inline = COMMON[list[i]:match "^[^=]+"], list[i]:find("=", 1, true)
        if not kind then
            break
        end
        i = i + ((inline or kind == "") and 1 or 2)
    end
    return i
end

-- The elements from the i-th on, which may be too many for unpack().
local function rest(list, i)
    local tail = {}
    for k = i, #list do
        tail[#tail + 1] = list[k]
    end
    return tail
end

--- Reads a command line from list[from] on. known: the verb's flags, from flags.kinds(). A verb
-- without a command has after "--" names that may begin with "-".
-- @return { ["--wait"] = 5, ... }, the names, and the command or what follows, or nil
function _M.parse(list, from, known)
    local given, names = {}, {}
    local i = from
    verb = list[from - 1] .. " "
    while i <= #list do
        local word = list[i]
        if word == "--" and known["--"] or names[1] and known["..."] then
            return given, names, rest(list, word == "--" and known["--"] and i + 1 or i)
        elseif word == "--" then
            for k = i + 1, #list do
                names[#names + 1] = list[k]
            end
            break
        elseif word:sub(1, 1) == "-" and word ~= "-" then
            local option, inline = word:match "^(%-%-[^=]+)=(.*)$"
            option = option or word
            local kind = known[option]
            if kind and kind:find "^%-" then
                option, kind = kind, known[kind]
            end
            if option == "--password" then
                usage "everybody can read command lines: --password-file or --password-env"
            elseif not kind then
                usage("unknown option " .. _M.words({ option }, 1))
            elseif kind == "" and inline then
                usage(option .. " takes no value")
            elseif kind == "" then
                given[option] = true
            else
                i = inline and i or i + 1
                given[option] = value_of(option, kind, inline or list[i])
            end
        else
            names[#names + 1] = word
        end
        i = i + 1
    end
    return given, names
end

--- Returns the only pattern, or nil: there is none; or fails.
function _M.pattern(names, command)
    if #names > 1 then
        _M.fail(("%s takes only one pattern; quote it: redlock %s 'deploy:*'"):format(command,
            command))
    end
    return names[1]
end

--- Fails unless there is at least one name, and a command after "--" (argv). command: the verb.
function _M.command_behind(names, argv, command)
    if #names == 0 then
        usage(command .. " needs the name of a lock")
    elseif names[2] and not argv then
        _M.fail(("put the command after --: redlock %s %s -- %s"):format(command, names[1],
            _M.words(names, 2)))
    elseif not argv or #argv == 0 then
        _M.fail(("no command is given: redlock %s NAME -- CMD..."):format(command))
    end
end

function _M.name(names, command)
    if #names ~= 1 then
        usage(#names == 0 and command .. " needs the name of a lock"
            or "only one name is wanted, not " .. _M.words(names, 1))
    end
    return names[1]
end

return _M
