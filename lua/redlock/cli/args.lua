--- Command lines: options with and without values, names, and what follows "--".

local flags = require "redlock.cli.flags"

local _M = {}

--- Ends the command with a message for people.
-- @param text    what is wrong, and what to do
-- @param status  the exit status; default: 125
function _M.fail(text, status)
    error({ text = text, status = status or 125 }, 0)
end

local function usage(text)
    _M.fail(text .. "\nTry: redlock --help")
end

local COMMON = flags.kinds()

--- Words of a command line for a message: URIs without quotes around them come to be taken
-- for names, and may have passwords.
function _M.words(list, from)
    local shown = {}
    for i = from, #list do
        shown[#shown + 1] = (list[i]:gsub("://.*", "://..."))
    end
    return table.concat(shown, " ")
end

local function value_of(option, kind, text)
    if text == nil then
        usage(option .. " needs a value")
    elseif kind == "=S" then
        local seconds = tonumber(text)
        return seconds and seconds >= 0 and seconds     -- and no NaN
            or usage(option .. " needs a number of seconds")
    end
    return text
end

--- Where the command is: options of all commands may come before it.
-- @return its index in list; of --help, --version, or another word that is no such option
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

-- The elements from the i-th on; there may be more of them than unpack() takes.
local function rest(list, i)
    local tail = {}
    for k = i, #list do
        tail[#tail + 1] = list[k]
    end
    return tail
end

--- Reads a command line.
-- @param list   arguments, the first of them at `from`
-- @param from   where its arguments begin
-- @param known  of the verb, as flags.kinds() says it. Behind "--" there are names, which may
--   begin with "-", if no command is there
-- @return { ["--wait"] = 5, ... }, the names, and the command, or what follows (or nil)
function _M.parse(list, from, known)
    local given, names = {}, {}
    local i = from
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
                usage("unknown option " .. option)
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

--- At least one name, and a command behind it.
-- @param names    that were given
-- @param argv     what is behind "--", or nil
-- @param command  the verb
function _M.command_behind(names, argv, command)
    if #names == 0 then
        usage(command .. " needs the name of a lock")
    elseif names[2] and not argv then
        _M.fail(("the command goes behind --: redlock %s %s -- %s"):format(command, names[1],
            _M.words(names, 2)))
    elseif not argv or #argv == 0 then
        _M.fail(("no command is given: redlock %s NAME -- CMD..."):format(command))
    end
end

--- Exactly one name.
function _M.name(names, command)
    if #names ~= 1 then
        usage(#names == 0 and command .. " needs the name of a lock"
            or "only one name is wanted, not " .. _M.words(names, 1))
    end
    return names[1]
end

return _M
