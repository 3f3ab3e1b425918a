--- The command `redlock`: see cli/help.lua for what it does.

local args = require "redlock.cli.args"
local help = require "redlock.cli.help"
local report = require "redlock.cli.report"

local _M = {}

local FAILED = 125

-- Loaded when it is wanted: help needs no servers, and no core.
local COMMANDS = {
    run = function(list) return require("redlock.cli.run").main(list) end,
    dev = function(list) return require("redlock.cli.dev").main(list) end,
    status = function(list) return require("redlock.cli.look").status(list) end,
    unlock = function(list) return require("redlock.cli.look").unlock(list) end,
    check = function(list) return require("redlock.cli.look").check(list) end,
    init = function(list) return require("redlock.cli.look").init(list) end,
}

local function dispatch(list)
    local at = args.command(list)
    if at > #list + 1 then
        args.fail(list[#list] .. " needs a value\nTry: redlock --help")
    end
    local word = list[at]
    if word == "help" and list[at + 1] then
        word, list, at = list[at + 1], { list[at + 1], "--help" }, 1
    end
    if word == "--help" or word == "-h" or word == "help" then
        print(help[""])
        return 0
    elseif word == "--version" then
        print("redlock " .. require("redlock")._VERSION)
        return 0
    elseif not COMMANDS[word] then
        report.note(word and "there is no command '" .. args.words({ word }, 1) .. "'"
            or "what is to be done?", "\nTry: redlock --help")
        return FAILED
    end
    local words = { word }               -- options before it are options of it
    for i, other in ipairs(list) do
        if i ~= at then
            words[#words + 1] = other
        end
    end
    local status = COMMANDS[word](words)
    if not status then            -- it was asked for help
        print(help[word])
    end
    return status or 0
end

--- Runs a command line.
-- @param list  the arguments, from 1
-- @return the exit status
function _M.main(list)
    local ok, status = pcall(dispatch, list)
    local written, why = io.stdout:flush()
    if ok and not written then
        report.note("the answer cannot be written: ", why)
        return FAILED
    elseif ok then
        return status
    elseif type(status) == "table" and status.status then
        if status.text then
            report.note(status.text)
        end
        return status.status
    elseif tostring(status):find("interrupted!", 1, true) then       -- Ctrl-C, by luajit
        return 130
    end
    report.note(report.text_of(status))
    return FAILED
end

return _M
