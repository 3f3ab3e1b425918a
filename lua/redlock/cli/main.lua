--- The command `redlock`; cli/help.lua describes it.

local args = require "redlock.cli.args"
local flags = require "redlock.cli.flags"
local help = require "redlock.cli.help"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"

local _M = {}

local FAILED = 125

local function dispatch(list)
    local at = args.command(list)
    if at > #list + 1 then
        args.fail(list[#list] .. " needs a value\nTry: redlock --help")
    end
    local word = list[at]
    if word == "help" and list[at + 1] then
        word, list, at = list[at + 1], { list[at + 1], "--help" }, 1
    end
    local verb = help.verb(word)
    if word == "--help" or word == "-h" or word == "help" then
        print(help.general())
        return 0
    elseif word == "--version" then
        print("redlock " .. require("redlock")._VERSION)
        return 0
    elseif not verb then
        report.note(word and "there is no command '" .. args.words({ word }, 1) .. "'"
            or "no command given", "\nTry: redlock --help")
        return FAILED
    end
    local words = { word }               -- then all others: options before the verb belong to it
    for i, other in ipairs(list) do
        if i ~= at then
            words[#words + 1] = other
        end
    end
    local given, names, argv = args.parse(words, 2, flags.kinds(verb.flags, verb.follows))
    if given["--help"] then
        print(help.for_verb(word))
        return 0
    end
    if verb.follows == "--" then     -- what is held does not depend on who reads the messages
        process.disregard { process.PIPE }
    end
    return verb.main(given, names, argv)
end

--- Runs a command line.
-- @return the exit status. Raises errors that no verb expects, and luajit's for Ctrl-C
function _M.main(list)
    process.keep_ignoring()
    local ok, status = pcall(dispatch, list)
    local written, why = io.stdout:flush()
    if ok and not written then
        report.note("the answer cannot be written: ", why)
        return FAILED
    elseif ok then
        return status
    elseif type(status) == "table" and status.status then
        if status.text then
            report.note((status.text:gsub("[%z\1-\9\11-\31\127]", "?")))
        end
        return status.status
    end
    error(status, 0)
end

return _M
