--- The texts of redlock --help.

local options = require "redlock.api.options"

local _M = {}

-- A line for each option of the client that is one of all commands.
local function flags()
    local lines = {}
    for _, row in ipairs(options.rows) do
        if row.flag and not row.of then
            local arg = row.arg or type(row.default) == "number" and "S" or ""
            local text = row.text:gsub("`", ""):gsub("; false:.*", ""):gsub("^false: ", "")
            lines[#lines + 1] = ("  %-21s %s%s"):format(row.flag .. " " .. arg, text,
                type(row.default) == "number" and (" (%g)"):format(row.default) or "")
        end
    end
    return table.concat(lines, "\n")
end

_M[""] = ([[
redlock: locks on Redis servers, from the command line.

  redlock run NAME -- CMD...    runs a command while it holds the lock NAME
  redlock status NAME           who holds it, for how long, server by server
  redlock unlock --force NAME   opens it for everybody
  redlock check                 how the servers are, and what to do about it
  redlock init                  lets a brand-new set of servers vote at once
  redlock dev [N]               N servers to throw away (3), until Ctrl-C

Try it, in two shells:
  redlock dev
  export REDLOCK_NODES='...'    as the first one says, in both
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
  --nodes URIS          redis://[user:password@]host[:port][/db], rediss:// (TLS),
                        unix:///path; separated by spaces or commas
  --config FILE         instead of the usual places
FLAGS
  --json                for programs
  --help, --version
  --                    names may begin with - behind it (of run: the command follows)

Everybody on this machine can read the command lines of all processes: passwords do not
belong there, nor into --nodes, but into a file, a variable, or the configuration (chmod 600).
The command of `run` gets no variables with passwords.

Exit status:
  0     done; run: the command's own status is passed on
  1     unlock: it was open already; status: it is free; check: there are warnings
  2     check: something is wrong
  123   run: the lock was lost, or --max-hold was over, and the command was ended
  124   run: somebody else holds it; the command was not started
  125   redlock itself failed: usage, configuration, no majority of the servers
  126   run: the command cannot be executed; 127: it is not there
  128+n run: the command, or the wait for the lock, was ended by signal n
More: redlock run --help, and so on.]]):gsub("FLAGS", flags)

_M.run = [[
redlock run NAME [--wait S | --no-wait] [--lease S] [--at-least S] [--max-hold S]
                 [--kill-after S] [--plain] -- CMD...

Takes the lock NAME, runs the command, lets the lock go, and exits with the command's status.
The lock is renewed while the command runs.

  --wait S        give up after S seconds, with status 124 (default: wait for as long as it
                  is held)
  -n, --no-wait   the same as --wait 0
  --lease S       how long the lock outlives a crash of this machine (30)
  --at-least S    the name stays closed until S seconds after it was taken, also when the command
                  has ended by then, or redlock itself; at most max_lease (60)
  --max-hold S    end the command after so long, with status 123 (default: never)
  --kill-after S  when the lock is lost, or --max-hold is over, the command and all that it
                  started get TERM, and KILL S seconds later (5)
  --plain         a lock without a fencing token: for users of the servers whose rights are
                  enough for plain locks only

The command finds REDLOCK_NAME in its environment, and the fencing token, a number that grows
from hold to hold, as REDLOCK_TOKEN: whatever it writes to can refuse smaller ones, which come
from somebody who was paused past the end of the lock. Plain and fenced locks of one name, in
programs as well, exclude each other. TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to it.
Without a terminal as standard input it is the leader of a process group of its own, which gets
the signals as a whole. When redlock itself is killed, or stopped for longer than the lock
lasts, the command and all that it started are ended in the same way, KILL coming before the
lock's time is over: what it has others start (systemd, docker, at) is not found.

  # at most one nightly job, whichever machine's cron is first (crontab); their clocks may
  # differ by 50 s, or by how long the job takes, if that is more
  0 3 * * *  redlock run nightly --no-wait --at-least 50 -- /usr/local/bin/report
  # one deployment after the other
  redlock run deploy:web --wait 600 -- ./deploy.sh
  # several commands
  redlock run db:migrate -- sh -c 'pg_dump app > before.sql && ./migrate'
  # late writers change nothing
  redlock run stock -- sh -c 'psql -v t=$REDLOCK_TOKEN -f stock.sql' # ... WHERE fence <= :t]]

_M.status = [[
redlock status NAME [--json]

Says whether NAME is held, for how long unless it is renewed, and what each server knows of
it. A holder is shown by eight digits that are other ones for each hold.
Exit status: 0: it is held; 1: it is free; 125: no majority of the servers says so.

  redlock status deploy:web || echo "nobody deploys"]]

_M.unlock = [[
redlock unlock --force NAME

Opens a lock whoever holds it, for locks that nobody will open: of a machine that is gone, or
of a program that hangs. (Without it they open by themselves at the end of the lease, unless
somebody renews them.) The holder, if there is one, learns of it when it renews the lock, and
may work on until then beside the next one.
Exit status: 0: it is open now; 1: it was open already; 125: no majority of the servers.

  redlock status deploy:web && redlock unlock --force deploy:web]]

_M.check = [[
redlock check [--json]

Asks each server how it is: version, role, age, clock, persistence, and whether it may vote;
a row per server with a verdict, and below what to do about it.
Exit status: 0: all is well; 1: there are warnings; 2: something is wrong; 125: usage.

  redlock check || mail -s "lock servers" ops@example.org < /dev/null]]

_M.init = [[
redlock init [--force]

Lets a brand-new set of servers vote at once. Otherwise they do so when they have been in use
for a while (max_lease * 1.01 + 1 s): a server without memory may have forgotten locks that are
still held. All servers must be up, and none in use already (if all are, nothing is done).
  --force   admits the servers that answer, whatever they say, also for another max_lease.
            Only when nobody can hold a lock: stop all clients, and wait for the longest lease
Exit status: 0: they may vote; 125: not done, and why.]]

_M.dev = [[
redlock dev [N] [--server PROGRAM]

Starts N Redis servers (3) on free ports of this machine, which nobody else can reach and which
keep nothing, and tells their URIs. They may vote at once, and end with this command, however
it ends.
  --server PROGRAM   instead of redis-server: valkey-server, /opt/redis/bin/redis-server

  redlock dev 5 --json | head -1]]

return _M
