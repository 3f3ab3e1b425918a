-- Who changes the list of servers, by the command, as an operator would: it is killed now and
-- then, and somebody else finishes what it has begun.
local cli = require "spec.support.command"
local sys = require "spec.support.sys"

local _M = {}

local PAUSE_S = 0.3             -- before somebody tries again
local FINISH_S = 60             -- for a change, after all faults were over
local RECORD = "redlock:{server}:members"

-- Of the command, whose configuration is that of the clients, at peace.
local CONFIG = "max_lease = %g\nlease = %g\ntimeout = 0.3\nconnect_timeout = 1\npatience = 5\n"

local function redlock(w, ...)
    local names = {}
    for s, server in ipairs(w.servers) do
        names[s] = server.uri
    end
    return cli.start({ uris = function() return names end }, w.dir, {}, ...)
end

--- Gives the command the configuration of the clients.
function _M.configure(w)
    assert(sys.sh(("mkdir -p '%s/.config'"):format(w.dir)))
    sys.write_file(w.dir .. "/.config/redlock.conf", CONFIG:format(w.opts.max_lease,
        w.opts.lease))
end

--- The list may change from now on.
-- @param w  the world, whose servers are in a list
function _M.allow(w)
    local status, said = cli.ends(redlock(w, "members", "online", "on"))
    assert(status == 0, said)
    w.lists = { changed = 0 }
end

--- Begins to put another server in the place of server s, unless a change is under way.
-- @return a name for the change, or nil
function _M.begin(w, s)
    if w.lists.change then
        return nil
    end
    local spare, clock = w:spare()
    local change = { server = s, spare = spare, clock = clock, by = "replace" }
    change.proc = redlock(w, "members", "replace", w.servers[s].uri .. "=" .. spare.uri)
    w.lists.change = change
    w:server_note(s, "is replaced by " .. spare.uri)
    return change
end

--- Kills who is at it.
function _M.kill(w, change)
    if change and w.lists.change == change and change.proc:alive() then
        change.proc:kill "KILL"
        w:server_note(change.server, "who replaces it is killed")
    end
end

-- The newest record that a server has.
local function record(w)
    local newest, epoch = "", 0
    for _, server in ipairs(w.servers) do
        local text = not server.frozen and server:alive() and server:call("GET", RECORD)
        local its = tonumber(type(text) == "string" and text:match "^v2 %x+ (%d+)\n")
        if its and its > epoch then
            newest, epoch = text, its
        end
    end
    return newest
end

-- Nobody uses the server that has left.
local function move(w, change)
    local s, old = change.server, w.servers[change.server]
    w.lists.changed = w.lists.changed + 1
    old:kill()
    w.servers[s], w.clocks[s] = change.spare, change.clock
    w:server_is(s, "up", "is " .. change.spare.uri .. " now")
    for c, client in ipairs(w.clients) do
        local nginx = client.proc.nginx
        if nginx then
            local path = nginx.dir .. "/nginx.conf"
            local text = sys.read_file(path)
            local from, to = text:find('"' .. old.uri .. '"', 1, true)
            sys.write_file(path, text:sub(1, from) .. change.spare.uri .. text:sub(to))
        end
        w.uris[c][s] = change.spare.uri
    end
end

--- Sees to the change that is under way: who is done, or was killed, is followed by others until
-- the change is finished.
-- @param is_free  whether nothing else happens to a server, by its number
function _M.look(w, is_free)
    local change = w.lists and w.lists.change
    if not change or change.proc:alive() or not is_free(change.server)
        or sys.now() < (change.again or 0) then
        return
    end
    local status, said = cli.ends(change.proc)
    change.proc:close()
    if change.by == "finish" and status == 0 then
        if record(w):find("=" .. change.spare.uri, 1, true) then
            move(w, change)
        else                           -- it was killed before it had begun
            change.spare:kill()
        end
        w.lists.change = nil
        return
    end
    w:server_note(change.server, ("%s ends with %s: %s"):format(change.by, tostring(status),
        said:match "([^\n]*)\n?$"))
    change.by, change.proc = "finish", redlock(w, "members", "finish")
    change.again = sys.now() + PAUSE_S
end

--- Waits until no change is under way: all faults are over.
function _M.await(w)
    local done, err = pcall(sys.eventually, function()
        _M.look(w, function() return true end)
        return not (w.lists and w.lists.change)
    end, FINISH_S, "a change of the list")
    if not done then
        w:violation(tostring(err))
    end
end

return _M
