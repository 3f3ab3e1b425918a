--- redlock members: the list of servers, and how it changes while locks are held.
local args = require "redlock.cli.args"
local config = require "redlock.cli.config"
local json = require "redlock.core.json"
local process = require "redlock.cli.process"
local report = require "redlock.cli.report"

local _M = { usage = "members ...", summary = "the list of servers, and how it changes",
    flags = { { "--dry-run", nil, "only says what would be done, what it would wait for, and how "
        .. "long", short = "-n" } } }

_M.help = [[
redlock members [show]
redlock members online on
redlock members add URI | remove SERVER | replace SERVER=URI | finish [--dry-run]

The list of servers, as the servers have it. It changes while locks are held, one server at a time:
both lists must agree for max_lease * 1.01 + 1 s, then the new one is in force; a new server votes
after a quarantine of the same length, which ends at about the same time. It may be interrupted at
any time. Clients learn of the list from the servers; their configuration is to be changed all the
same, before the fourth change from now. A server that has left is stopped then, not emptied.

  online on   once, with all servers up, before the first change: from then on a server that has
              forgotten votes again only when others have said which list is the newest
  add         to a list of an odd number, for a while: an even number tolerates no more failures
  remove      from a list of an even number; in an odd one servers are replaced
  replace     also a server that is down for good
  finish      goes on with a change that somebody else has begun, and not ended, until the server
              that it adds votes

FLAGS

Exit status: 0: done; 125: not, and why.

  redlock members replace 10.0.0.1:6379=redis://10.0.0.4]]

local FAILED = 125

-- What is asked for, as client:members takes it.
local function asked(names)
    local verb, name = names[1] or "show", names[2]
    if verb == "show" and not name then
        return nil
    elseif verb == "finish" and not name then
        return { finish = true }
    elseif verb == "online" and name == "on" and not names[3] then
        return { online = true }
    elseif (verb == "add" or verb == "remove") and name and not names[3] then
        return { [verb] = name }
    elseif verb == "replace" and not names[3] and (name or ""):find "^[^=]+=." then
        local old, new = name:match "^([^=]+)=(.+)$"
        return { remove = old, add = new }
    end
    args.fail "members: show, online on, add URI, remove SERVER, replace SERVER=URI, or finish\n\z
        Try: redlock members --help"
end

-- What is being done: a line for each step, where somebody looks with a bar that grows.
local function teller(quiet)
    local last
    return not quiet and function(what, seconds, of)
        if what ~= last then
            report.note(what, of and (" (up to %.0f)"):format(of) or "")
            last = what
        end
        if of and process.is_terminal(2) then
            local n = math.floor(20 * math.min(seconds / of, 1))
            io.stderr:write(("  [%s%s] %.0f of %.0f\r"):format(("#"):rep(n), ("."):rep(20 - n),
                seconds, of))
        end
    end or nil
end

local function rows(list)
    local lines = {}
    for i, member in ipairs(list) do
        lines[i] = { member.node, member.votes and "votes" or member.answers
            and "no vote: see redlock check" or "does not answer" }
    end
    return report.columns(lines)
end

local function show(found)
    print(("list %d of cluster %s%s"):format(found.epoch, found.cluster,
        found.online and "" or "; before it can change: redlock members online on"))
    print(rows(found.list))
    if found.old then
        print("which takes the place of (if nobody is at it: redlock members finish)")
        print(rows(found.old))
    end
    if found.plan then
        print(("would take the list\n  from {%s}\n  to {%s}\nin %.0f s%s"):format(found.plan.from,
            found.plan.to, found.wait, found.plan.waits_for and ", when these vote: "
            .. found.plan.waits_for or ""))
    end
end

--- Does what the verb says.
-- @param given  the options
-- @param names  what else was given
-- @return the exit status
function _M.main(given, names)
    local opts = asked(names)
    local client = config.client(given)
    if opts then
        opts.dry_run, opts.progress = given["--dry-run"], teller(given["--json"])
    end
    local ran, found, err = pcall(client.members, client, opts)
    client:close()
    if not ran then
        args.fail(report.text_of(found))
    elseif not found then
        report.note(report.error(err))
        return FAILED
    elseif given["--json"] then
        print(json.encode(found))
    else
        show(found)
    end
    return 0
end

return _M
