-- The faults. Each entry is all there is to know about one:
--   per_minute  how often
--   on          "server": one server; "client": one client process; "edges": the connections of
--               one client to some servers; "nginx": one client that is an nginx
--   lasts       { least, most } seconds from start() to stop(); none: start() alone
--   impairs     the server cannot vote meanwhile: at most a minority at a time is
--   forgets     the server may forget a lock that is held. While locks may be forgotten no
--               algorithm excludes, so a run that claims exclusion shuts such a server's door
--               until the longest lease is over, as the Redlock page asks operators to do
--   guarded     the library's restart guard notices: where it is on nobody shuts the door, and
--               the server counts as impaired until its quarantine is over
--   fakes_time  it happens to one process's clock, while what the guard waits for takes its
--               true time: not where the guard is on
--   beyond      only in runs that do not claim exclusion
--   start, stop (w, f): w the world (world.lua); f.server, f.client, f.edges what it hits,
--               f.x in [0, 1) how hard, f.lasts (s)
-- Order matters: the schedule of a seed follows from it. Add new ones at the end.

local path = require "spec.support.path"

local function each_edge(w, f, fn)
    for _, s in ipairs(f.edges) do
        fn(w.edges[f.client][s], s)
    end
end

local function between(f, low, high)
    return math.floor(low + (high - low) * f.x + 0.5)
end

local function config(name, value, default)
    return function(w, f)
        w:command(f.server, "CONFIG", "SET", name, value)
        w:server_is(f.server, "slow", ("CONFIG SET %s %s"):format(name, value))
    end, function(w, f)
        w:command(f.server, "CONFIG", "SET", name, default)
        w:server_is(f.server, "up", ("CONFIG SET %s %s"):format(name, default))
    end
end

-- Redis before 6.2 pauses all, until the time is over.
local function only_writes()
    if path.since(6, 2) then
        return "WRITE"
    end
end

local function server_fault(name, per_minute, lasts, start, stop)
    return { name = name, per_minute = per_minute, on = "server", lasts = lasts,
        impairs = lasts ~= nil, start = start, stop = stop }
end

local function guarded(fault)
    fault.guarded = true
    return fault
end

local function forgetting(fault)
    fault.forgets = true
    return fault
end

local function edge_fault(name, per_minute, lasts, start, stop)
    return { name = name, per_minute = per_minute, on = "edges", lasts = lasts,
        start = function(w, f)
            w:note(f, name)
            each_edge(w, f, function(edge, s) start(edge, f, w, s) end)
        end,
        stop = stop and function(w, f)
            w:note(f, name .. " ends")
            each_edge(w, f, function(edge, s) stop(edge, f, w, s) end)
        end }
end

local function kill(w, f)
    w.servers[f.server]:kill()
    w:server_is(f.server, "down", "kill -9")
end

local function restart(w, f)
    w.servers[f.server]:start()
    w:server_is(f.server, "up", "restarted")
end

local function step(w, f, ms)
    w:step_server(f.server, ms)
end

-- 1/3 each: both directions, one of them, kept and passed on in one burst at the end.
local function part(edge, f)
    if f.x < 1 / 3 then
        edge:drop("both", true)
    elseif f.x < 2 / 3 then
        edge:drop(f.x < 0.5 and "up" or "down", true)
    else
        edge:hold("both", true)
    end
end

local function join(edge)
    edge:drop("both", false)
    edge:hold("both", false)
end

local function nginx_fault(name, per_minute, lasts, start, stop)
    return { name = name, per_minute = per_minute, on = "nginx", lasts = lasts, start = start,
        stop = stop }
end

local _M = {
    -- servers
    server_fault("freeze_server", 10, { 0.1, 1.5 }, function(w, f)
        w.servers[f.server]:freeze()
        w:server_is(f.server, "frozen", "SIGSTOP")
    end, function(w, f)
        w.servers[f.server]:thaw()
        w:server_is(f.server, "up", "SIGCONT")
    end),

    guarded(server_fault("kill_server", 6, { 0.05, 1 }, kill, restart)),

    guarded(forgetting(server_fault("wipe_server", 4, { 0.05, 0.5 }, kill, function(w, f)
        w:wipe(f.server)
        restart(w, f)
    end))),

    guarded(forgetting(server_fault("power_loss", 3, { 0.05, 0.5 }, kill, function(w, f)
        w:truncate_log(f.server, between(f, 50, 3000))
        restart(w, f)
    end))),

    guarded(forgetting(server_fault("flushall", 2, nil, function(w, f)
        w:command(f.server, "FLUSHALL")
        w:server_note(f.server, "FLUSHALL")
    end))),

    -- Within the allowance for clocks: a hundredth of the shortest lease and 2 ms.
    server_fault("clock_creeps", 5, nil, function(w, f) step(w, f, between(f, 1, 3)) end),

    server_fault("clock_back", 3, nil, function(w, f) step(w, f, -between(f, 100, 1500)) end),

    forgetting(server_fault("clock_ahead", 3, nil, function(w, f)
        step(w, f, between(f, 100, 3000))
    end)),

    server_fault("pause_writes", 3, { 0.1, 1 }, function(w, f)
        w:command(f.server, "CLIENT", "PAUSE", math.floor(f.lasts * 1000), only_writes())
        w:server_is(f.server, "slow", "CLIENT PAUSE WRITE")
    end, function(w, f)
        if only_writes() then
            w:command(f.server, "CLIENT", "UNPAUSE")
        end
        w:server_is(f.server, "up", "CLIENT UNPAUSE")
    end),

    server_fault("script_flush", 5, nil, function(w, f)
        w:command(f.server, "SCRIPT", "FLUSH")
        w:server_note(f.server, "SCRIPT FLUSH")
    end),

    server_fault("out_of_memory", 2, { 0.2, 1.5 }, config("maxmemory", "1", "0")),

    server_fault("no_replicas", 2, { 0.2, 1.5 }, config("min-replicas-to-write", "1", "0")),

    server_fault("readonly", 2, { 0.2, 1.5 }, function(w, f)
        w:command(f.server, "REPLICAOF", "127.0.0.1", "1")
        w:server_is(f.server, "slow", "REPLICAOF nowhere")
    end, function(w, f)
        w:command(f.server, "REPLICAOF", "NO", "ONE")
        w:server_is(f.server, "up", "REPLICAOF NO ONE")
    end),

    guarded(forgetting(server_fault("replica_of_another", 1, { 0.3, 1.5 }, function(w, f)
        local other = w.servers[f.server % #w.servers + 1]
        w:command(f.server, "REPLICAOF", "127.0.0.1", other.port)
        w:server_is(f.server, "slow", "REPLICAOF another")
    end, function(w, f)
        w:command(f.server, "REPLICAOF", "NO", "ONE")
        w:server_is(f.server, "up", "REPLICAOF NO ONE")
    end))),

    server_fault("password", 2, { 0.2, 1.5 }, function(w, f)
        w:command(f.server, "CONFIG", "SET", "requirepass", "chaos")
        w:command(f.server, "CLIENT", "KILL", "SKIPME", "yes")
        w:server_is(f.server, "slow", "needs a password")
    end, function(w, f)
        w:command(f.server, "CONFIG", "SET", "requirepass", "")
        w:server_is(f.server, "up", "needs no password")
    end),

    server_fault("kill_connections", 5, nil, function(w, f)
        w:command(f.server, "CLIENT", "KILL", "SKIPME", "yes")
        w:server_note(f.server, "CLIENT KILL")
    end),

    -- clients
    { name = "freeze_client", per_minute = 20, on = "client", lasts = { 0.1, 1.5 },
        start = function(w, f) w:stop_client(f.client) end,
        stop = function(w, f) w:continue_client(f.client) end },

    { name = "kill_client", per_minute = 6, on = "client", lasts = { 0.05, 0.5 },
        start = function(w, f) w:kill_client(f.client) end,
        stop = function(w, f) w:start_client(f.client) end },

    { name = "suspend_client", per_minute = 4, on = "client", lasts = { 0.05, 0.3 },
        fakes_time = true,
        start = function(w, f)
            w:stop_client(f.client)
            w:step_client(f.client, 0, between(f, 100, 3000))
        end,
        stop = function(w, f) w:continue_client(f.client) end },

    { name = "wall_clock", per_minute = 4, on = "client",
        start = function(w, f) w:step_client(f.client, between(f, -3600e3, 3600e3), 0) end },

    -- the network
    edge_fault("partition", 12, { 0.3, 3 }, part, join),

    edge_fault("cut", 6, nil, function(edge) edge:cut() end),

    edge_fault("half_close", 4, nil, function(edge, f)
        edge:half_close(f.x < 0.5 and "up" or "down")
    end),

    edge_fault("slow", 4, { 0.5, 2 }, function(edge, f)
        edge:delay("both", between(f, 5, 60))
        edge:bandwidth(20000)
    end, function(edge)
        edge:delay("both", 0)
        edge:bandwidth(0)
    end),

    edge_fault("refuse", 3, { 0.2, 1.5 }, function(edge, f, w, s)
        w:refuse(f.client, s, true)
        edge:cut()
    end, function(_, f, w, s)
        w:refuse(f.client, s, false)
    end),

    -- A SET that arrives when its client has given up and released.
    edge_fault("late_acquire", 8, { 0.3, 1 }, function(edge, f, w)
        edge:hold_request(w:acquire_sha(f.client))
    end, function(edge)
        edge:release()
    end),

    edge_fault("lost_reply", 6, nil, function(edge, f, w)
        edge:cut_after_request(w:acquire_sha(f.client))
    end),

    edge_fault("no_new_connections", 3, { 0.3, 1.5 }, function(edge)
        edge:blackhole_connect(true)
        edge:cut()
    end, function(edge)
        edge:blackhole_connect(false)
    end),

    server_fault("busy_script", 3, { 0.1, 0.8 }, function(w, f)
        w:command(f.server, "CONFIG", "SET", "lua-time-limit", "20")
        w:abandon(f.server, "EVAL", "while true do end", "0")
        w:server_is(f.server, "slow", "a script that does not end")
    end, function(w, f)
        w:command(f.server, "SCRIPT", "KILL")
        w:server_is(f.server, "up", "SCRIPT KILL")
    end),

    { name = "amnesia", per_minute = 2, on = "server", beyond = true, start = function(w)
        for s, server in ipairs(w.servers) do
            if server:alive() and not server.frozen then
                server:call "FLUSHALL"
                w:server_note(s, "FLUSHALL")
            end
        end
    end },

    nginx_fault("reload_nginx", 12, nil, function(w, f) w:reload_nginx(f.client) end),

    nginx_fault("kill_worker", 12, nil, function(w, f) w:kill_worker(f.client, f.x) end),

    nginx_fault("freeze_worker", 6, { 0.1, 1.2 }, function(w, f)
        f.worker = w:stop_worker(f.client, f.x)
    end, function(w, f)
        w:continue_worker(f.client, f.worker)
    end),

    -- Those who wait are served before it ends; meanwhile nobody is at the door. It may take
    -- longer to quit than the fault lasts.
    nginx_fault("quit_nginx", 4, { 1, 3 }, function(w, f)
        w:quit_nginx(f.client)
    end, function(w)
        w:start_nginx()
    end),

    -- A planned restart of a server that keeps what it has.
    guarded(forgetting(server_fault("shut_down_server", 3, { 0.05, 0.5 }, function(w, f)
        w.servers[f.server]:stop()
        w:server_is(f.server, "down", "SHUTDOWN")
    end, restart))),
}

return _M
