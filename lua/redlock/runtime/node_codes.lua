--- Why a server gave no vote: the codes, what each means, and what to do. A new code goes into
-- c/redlock.h, here, and where it is detected.

local _M = {}

local NO_NAME = "The host name does not resolve: correct it, or the resolver"

-- In the order in which reports list them. remedy: advice for people; or a list of { pattern of the
-- message, advice }, whose other messages say what to do; silent: the server did not
-- answer; up: the server runs although it is not ready.
_M.list = {
    { "ok", "it answered: see `vote`" },
    { "pending", "not asked, or its answer came after the decision", silent = true },
    { "timeout", "no answer, or no connection, in time", silent = true,
        remedy = { { "name is not resolved", NO_NAME }, { ".", "Check that the server is up and no "
            .. "firewall drops packets; --timeout and --connect-timeout allow more time" } } },
    { "refused", "the connection failed or broke", silent = true,
        remedy = { { "^connect: ", "Check that the server runs there and accepts connections: "
            .. "redis-cli -h HOST -p PORT ping" },
            { "max number of clients", "Raise its maxclients, or close connections" },
            { "protected mode", "Give its default user a password, or set protected-mode no" } } },
    { "dns", "the host name was not found", silent = true, remedy = NO_NAME },
    { "tls", "the handshake failed; the message says why", silent = true,
        remedy = { { "expired", "Renew the server's certificate" } } },
    { "auth", "user or password is wrong or missing", up = true,
        remedy = { { "without any password configured", "The server has no password: give none" },
            { ".", "Give user and password in the URI, or --user with --password-file or "
                .. "--password-env; examples/access/README.md explains each message" } } },
    { "noperm", "this user lacks an ACL rule", up = true,
        remedy = "The user lacks an ACL rule: redlock check names those for locks; "
            .. "examples/access/README.md lists all that it needs (fewer for run --plain)" },
    { "readonly", "it accepts no writes: a replica, too few replicas, or it cannot save", up = true,
        remedy = { { "NOREPLICAS", "Start its replicas, or lower min-replicas-to-write" },
            { "MISCONF", "The server cannot save: look at its log, and free its disk" } } },
    { "loading", "busy: it loads its data, or a long script runs", up = true,
        remedy = "Wait until the server has loaded its data, or the script has ended" },
    { "oom", "`maxmemory` is reached",
        remedy = "The server is out of memory; raise maxmemory" },
    { "script", "the script, or another command, failed" },
    { "protocol", "it did not answer like Redis",
        remedy = "Check that a Redis server listens on that port" },
    { "guarded", "no vote for a while: it is in quarantine, or its clock was set" },
    { "unseeded", "it does not know which fencing tokens were issued",
        remedy = "The server learns from the others which tokens were issued: start those that are "
            .. "down. If the command does not use REDLOCK_TOKEN, --plain works now" },
    { "not_a_lock", "the key is not a lock: it is data of a program that uses the same name" },
    { "config", "one server under two addresses, a replica, another `max_lease`", up = true,
        remedy = { { "DB index", "The server has fewer databases: use a smaller number in its "
                .. "address, or raise `databases` in its redis.conf" } } },
    { "unsupported", "it cannot do what was asked" },
    { "overload", "too many requests on its connection are unanswered" },
    { "nomem", "this process has no memory left for it" },
}

for _, row in ipairs(_M.list) do
    row.code, row.meaning = row[1], row[2]
    row.passes = row.silent or row.code == "loading"         -- by itself, perhaps
    _M[row.code] = row
end

--- What to do about a server with this code and message; nil: the message says it, or nothing.
function _M.remedy(code, message)
    local remedy = _M[code] and _M[code].remedy
    if type(remedy) ~= "table" then
        return remedy
    end
    for _, row in ipairs(remedy) do
        if message:find(row[1]) then
            return row[2]
        end
    end
end

return _M
