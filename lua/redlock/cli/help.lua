--- The verbs of the command, and the texts of --help. A verb is a file of its name with usage,
-- summary and help (texts; FLAGS in help stands for a line for each flag), flags (rows, see
-- flags.lua), follows (see flags.kinds), and main: it gets what args.parse returned, and returns
-- the exit status.

local flags = require "redlock.cli.flags"

local _M = {}

--- In the order of --help.
_M.verbs = { "run", "lead", "lua", "status", "ls", "top", "wait", "unlock", "check", "init",
    "dev" }

--- The module of a verb; nil: no such verb.
function _M.verb(word)
    for _, verb in ipairs(_M.verbs) do
        if verb == word then
            return require("redlock.cli." .. verb)
        end
    end
end

-- A line for each verb.
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

Try it:
  redlock dev
and in two other shells:
  export ...                    the line that it prints
  redlock run hello -- sleep 10
  redlock run hello --wait 3 -- echo "my turn"

Where the servers are: --nodes, else REDLOCK_NODES, else `nodes = ...` in the file that
--config or REDLOCK_CONFIG names, ~/.config/redlock.conf, or /etc/redlock.conf. The file has
a line `option = value` for each option of redlock.new that is to be other than usual:
  nodes = rediss://10.0.0.1 rediss://10.0.0.2
          rediss://10.0.0.3
  user = locks
  password_file = /etc/redlock.password
  ca_file = /etc/ssl/redis-ca.crt

Options of all commands, behind or before the command (durations are seconds; fractions are
fine):
FLAGS
  --version             which redlock this is
  --                    names may begin with - behind it (of run: the command follows)

Everybody on this machine can read the command lines of all processes: passwords do not
belong there, nor into --nodes, but into a file, a variable, or the configuration (chmod 600).
What `run`, `lead` and `lua` start gets no variables with passwords.

Exit status:
  0     done; run, lead: the command's own status is passed on; lua: the script's
  1     unlock: it was open already; status: it is free; check: there are warnings;
        lua: the script raised an error
  2     check: something is wrong
  123   run: the lock was lost, or --max-hold was over, and the command was ended;
        lua: the script raised that a lock is lost
  124   run: somebody else holds it, or it has run (--once); the command was not started;
        wait: it is held still; lua: so it was raised
  125   redlock itself failed: usage, configuration, no majority of the servers
  126   run, lead, lua: the command, or file, cannot be executed; 127: it is not there
  128+n run, lead, wait: the command, or the wait for it, was ended by signal n; lua: the script
More: redlock run --help, and so on.]]

--- The general help text.
function _M.general()
    return (GENERAL:gsub("VERBS", verbs):gsub("FLAGS", function()
        return flags.text(flags.common)
    end))
end

--- The help text of a verb.
function _M.of(word)
    local verb = _M.verb(word)
    return (verb.help:gsub("FLAGS", function() return flags.text(verb.flags) end))
end

return _M
