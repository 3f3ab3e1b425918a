--- Why a server gave no vote: the codes, what each means, and what to do. A new code goes into
-- c/redlock.h, here, and where it is detected.

local _M = {}

-- In the order in which reports list them. remedy: advice for people; silent: the server did not
-- answer; up: the server runs although it is not ready.
_M.list = {
    { "ok", "it answered: see `vote`" },
    { "pending", "not asked, or its answer came after the decision", silent = true },
    { "timeout", "no answer, or no connection, in time", silent = true,
        remedy = "Check that the server is up and no firewall drops packets; --timeout and "
            .. "--connect-timeout allow more time" },
    { "refused", "the connection failed or broke", silent = true,
        remedy = "Check that the server runs there and accepts connections: redis-cli -h HOST "
            .. "-p PORT ping" },
    { "dns", "the host name was not found", silent = true,
        remedy = "The host name does not resolve: correct it, or the resolver" },
    { "tls", "the handshake failed; the message says why", silent = true },
    { "auth", "user or password is wrong or missing", up = true,
        remedy = "Give user and password in the URI, or --user with --password-file or "
            .. "--password-env; examples/access/README.md explains each message" },
    { "noperm", "this user lacks an ACL rule", up = true,
        remedy = "The user lacks an ACL rule; examples/access/README.md lists all that it needs "
            .. "(fewer for run --plain)" },
    { "readonly", "it accepts no writes: a replica, too few replicas, or it cannot save", up = true,
        remedy = "Name masters, not replicas; MISCONF: free its disk; NOREPLICAS: start its "
            .. "replicas" },
    { "loading", "busy: it loads its data, or a long script runs", up = true,
        remedy = "Wait until the server has loaded its data, or the script has ended" },
    { "oom", "`maxmemory` is reached",
        remedy = "The server is out of memory; raise maxmemory" },
    { "script", "the script, or another command, failed" },
    { "protocol", "it did not answer like Redis",
        remedy = "Check that a Redis server listens on that port" },
    { "guarded", "no vote for a while: it may have forgotten locks, or its clock was stepped",
        remedy = "The server was restarted or is new, and votes after its quarantine. If all "
            .. "servers are new: redlock init" },
    { "unseeded", "it does not know which fencing tokens were issued",
        remedy = "The server must learn from the others which tokens were issued; try again when "
            .. "more servers are up" },
    { "not_a_lock", "the key holds something else, of a program that uses the same name" },
    { "config", "one server under two addresses, a replica, another `max_lease`", up = true,
        remedy = "Name each server once, and give all clients the same max_lease" },
    { "unsupported", "it cannot do what was asked" },
    { "overload", "too many requests on its connection are unanswered" },
    { "nomem", "this process has no memory left for it" },
}

for _, row in ipairs(_M.list) do
    row.code, row.meaning = row[1], row[2]
    _M[row.code] = row
end

return _M
