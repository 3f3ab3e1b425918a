--- The verbs of the command, and the texts of --help. A verb is a file of its name with usage,
-- summary and help (texts; FLAGS and STATUSES in help stand for a line for each), flags (rows, see
-- flags.lua), follows (see flags.kinds), and main: it gets what args.parse returned, and returns
-- the exit status.

local flags = require "redlock.cli.flags"

local _M = {}

--- In the order of --help.
_M.verbs = { "run", "lead", "lua", "status", "ls", "top", "wait", "unlock", "check", "init",
    "change", "dev" }

--- The module of a verb; nil: no such verb.
function _M.verb(word)
    for _, verb in ipairs(_M.verbs) do
        if verb == word then
            return require("redlock.cli." .. verb)
        end
    end
end

--- The exit statuses: the status, its verbs, and what it means.
_M.statuses = {
    { "any", "run, lead", "the command's own status" },
    { "any", "lua", "the number that the script returns or passes to os.exit (true: 0, false: 1); "
        .. "after return run(...) the program's status" },
    { "0", "status", "NAME is held: by a holder, by readers or permits, or as a latch that is not "
        .. "open" },
    { "0", "unlock", "NAME was released" },
    { "0", "wait", "NAME was free" },
    { "0", "check", "all servers vote, and nothing needs care" },
    { "0", "init", "the servers may vote" },
    { "0", "change", "all servers of the new list vote" },
    { "0", "ls", "done, even if no lock is held" },
    { "0", "top", "q or --count ended it" },
    { "0", "dev", "a signal ended it and its servers" },
    { "0", "lua", "the script ran to its end" },
    { "1", "check", "locks work, but something needs care, such as a server without a vote: "
        .. "restart no other server" },
    { "1", "change", "the change is made, but a server of the new list does not vote" },
    { "1", "lua", "the script raised an error" },
    { "2", "check", "no locks: no majority votes, or redlock run fails because this user lacks "
        .. "rights" },
    { "3", "status", "NAME is free" },
    { "3", "unlock", "NAME was free already" },
    { "123", "run", "the lock was lost, or --max-hold passed, and the command was ended" },
    { "123", "lua", "the script raised the error that a lock is lost, as lock:check() does" },
    { "124", "run", "another holder has it, or it has started in this period (--once); the command "
        .. "was not started" },
    { "124", "wait", "NAME is still held" },
    { "124", "lua", "the script raised the error that another holder has a lock" },
    { "125", "lua", "the script raised another error of the library" },
    { "125", "all", "redlock itself failed: usage, configuration, luajit, no majority of the "
        .. "servers" },
    { "126", "run, lead, lua", "the command or file cannot be executed" },
    { "127", "run, lead, lua", "the command or file does not exist" },
    { "128+n", "all", "signal n ended it, or its command or script" },
}

-- The exit statuses as text; of one verb, or nil: of all.
local function statuses(verb)
    local rows = {}
    for _, row in ipairs(_M.statuses) do
        local status, verbs, text = unpack(row)
        if not verb then
            rows[#rows + 1] = { ("%-6s%s"):format(status, verbs), nil, text }
        elseif verbs == "all" or (verbs .. ","):find("%f[%a]" .. verb .. ",") then
            rows[#rows + 1] = { status, nil, text }
        end
    end
    return "Exit status:\n" .. flags.text(rows)
end

local function verbs()
    local lines = {}
    for i, word in ipairs(_M.verbs) do
        local verb = _M.verb(word)
        lines[i] = ("  redlock %-21s %s"):format(verb.usage, verb.summary)
    end
    return table.concat(lines, "\n")
end

local GENERAL = [[
redlock: locks on Redis servers, from the command line.

VERBS

To try it, start servers:
  redlock dev
Then, in two other shells:
  export ...                    paste the line that redlock dev prints
  redlock run hello -- sleep 10
  redlock run hello --wait 20 -- echo "my turn"

redlock takes the servers from --nodes, else from REDLOCK_NODES, else from the configuration
file (user, passwords and certificates likewise: REDLOCK_USER, REDLOCK_PASSWORD_FILE ...). That
is the file that --config or REDLOCK_CONFIG names, else ~/.config/redlock.conf, else
/etc/redlock.conf. It sets options of redlock.new, a line `option = value` each; paths are
relative to its folder:
  nodes = rediss://HOST1 rediss://HOST2
          rediss://HOST3
  user = locks
  password_file = redlock.password
  ca_file = redlock.crt

Options of all commands, before or after the command's name. Durations are seconds; fractions
are fine:
FLAGS
  --version             print the version of redlock
  --                    what follows are names, even if they begin with - (run, lead: the
                        command follows)

Everybody on this machine can read command lines, so put no passwords there, and none into
--nodes. Put them into a file, a variable, or the configuration file (chmod 600). Programs that
`run`, `lead` and `lua` start do not get the variables with passwords.

STATUSES

More: redlock run --help, and so on.]]

function _M.general()
    return (GENERAL:gsub("VERBS", verbs):gsub("FLAGS", function()
        return flags.text(flags.common)
    end):gsub("STATUSES", function() return statuses() end))
end

function _M.for_verb(word)
    local verb = _M.verb(word)
    return (verb.help:gsub("FLAGS", function() return flags.text(verb.flags) end)
        :gsub("STATUSES", function() return statuses(word) end))
end

return _M
