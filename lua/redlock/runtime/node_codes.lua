--- Why a server gave no vote: the codes, what each means, and what to do. A new code goes into
-- c/redlock.h, here, and where it is detected.

local _M = {}

-- In the order in which reports list them. remedy: advice for people; silent: the server did not
-- answer; up: the server runs although it is not ready.
_M.list = {
    { "ok", "it answered: see `vote`" },
    { "pending", "not asked, or its answer came after the decision", silent = true },
    { "timeout", "no answer, or no connection, in time", silent = true,
        remedy = "Is the server up, and not behind a firewall? --timeout and --connect-timeout "
            .. "give it longer" },
    { "refused", "no connection, or it broke", silent = true,
        remedy = "Is the server running there, and does it take connections? redis-cli -h HOST "
            .. "-p PORT ping" },
    { "dns", "the host name was not found", silent = true,
        remedy = "The name of the server does not resolve" },
    { "tls", "the handshake failed: the message says why", silent = true },
    { "auth", "user or password is wrong, or one is wanted", up = true,
        remedy = "Give user and password in the URI, or --user with --password-file or "
            .. "--password-env" },
    { "noperm", "this user may not do that (ACL)", up = true,
        remedy = "The user may not do this; examples/access/README.md lists the ACL rules that "
            .. "are needed (fewer for run --plain)" },
    { "readonly", "it takes no writes: a replica, a full disk", up = true,
        remedy = "Name masters, not replicas, and see to it that they can write" },
    { "loading", "not now: it loads its data, or a script runs", up = true,
        remedy = "The server is busy; try again" },
    { "oom", "`maxmemory` is reached",
        remedy = "The server is out of memory; raise maxmemory" },
    { "script", "the script, or another command, failed" },
    { "protocol", "what it said is no answer of Redis",
        remedy = "Is that port one of Redis?" },
    { "guarded", "it may have forgotten locks, or its clock was stepped: no vote for a while",
        remedy = "The server was restarted, or is new: it votes when the time is over. If all "
            .. "of them are new: redlock init" },
    { "unseeded", "it does not know which fencing tokens it has counted",
        remedy = "The server has to learn which tokens were given out; try again when more of "
            .. "the servers are up" },
    { "config", "one server under two addresses, a replica, another `max_lease`", up = true,
        remedy = "Each server must be named once, and all clients need the same max_lease" },
    { "unsupported", "it cannot do what is asked" },
    { "overload", "too many requests on one connection have no answer" },
    { "nomem", "no memory was left for it in this process" },
}

for _, row in ipairs(_M.list) do
    row.code, row.meaning = row[1], row[2]
    _M[row.code] = row
end

return _M
