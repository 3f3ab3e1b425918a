--- Opens and closes a client's C core: its own, or one that the clients of an event loop share.

local ffi = require "ffi"
local ffi_values = require "redlock.runtime.ffi_values"
local finalizers = require "redlock.runtime.finalizers"
local rounds = require "redlock.runtime.rounds"

local max, pairs = math.max, pairs

local _M = {}

local MAX_TEXT = 1024        -- bytes of an error of rl_open, which may name a file

-- The collector does not see that a core has a thread and descriptors. So after MANY that are
-- still open it looks for clients that a program has dropped; twice, as it may be at work already.
local MANY, opened = 32, 0

local function count_opened()
    opened = opened + 1
    if opened == MANY then
        opened = 0
        collectgarbage()
        collectgarbage()
    end
end

local function close_one(core)
    opened = max(opened - 1, 0)
    rounds.load().rl_close(core)
end

-- key: a string, or nil. close(core) is called when the core is collected.
local function open(key, settings, nodes, close)
    local text = ffi.new("char[?]", MAX_TEXT)
    local core = rounds.load().rl_open(key, key and #key or 0, ffi.new("rl_options", settings),
        ffi.new("rl_node_options[?]", #nodes, nodes), #nodes, text, MAX_TEXT)
    if core == nil then
        return nil, (ffi.string(text):gsub("[^ -~]", "?"))
    end
    return ffi.gc(core, finalizers.for_core(close))
end

--- Opens a core for one client. settings: the fields of rl_options; nodes: a list of those of
-- rl_node_options.
-- @return the core, which closes when collected; or nil and a sentence: what is wrong
function _M.open(settings, nodes)
    count_opened()
    return open(nil, settings, nodes, close_one)
end

--- Releases all locks of a core, and closes its connections.
function _M.close(core)
    close_one(ffi.gc(core, nil))
end

local function stop_serving(core, mailbox, close)
    local C = rounds.load()
    C.rl_mailbox_unserve(mailbox, core)
    C.rl_unshare(core, close)
end

-- All that a core is opened with, as a string, but for the default lease: the shortest counts. A
-- meter has cores of its own, as it counts what they do.
local function key_of(settings, nodes, meter)
    if meter then
        meter.id = meter.id or ffi_values.nonce()
    end
    local parts = { "meter=" .. (meter and meter.id or "") }
    for i = 0, #nodes do
        for name, value in pairs(nodes[i] or settings) do
            parts[#parts + 1] = name ~= "lease_ms"
                and ("%d.%s=%q"):format(i, name, tostring(value)) or nil
        end
    end
    table.sort(parts)
    return table.concat(parts, "\n")
end

--- Like open(), for a core that is shared by all callers to whom it looks the same and who have the
-- same meter, or none. The loop that polls the mailbox turns it.
function _M.share(settings, nodes, meter, mailbox)
    local C = rounds.load()
    local core, why = open(key_of(settings, nodes, meter), settings, nodes,
        function(c) stop_serving(c, mailbox, 0) end)
    if core and C.rl_mailbox_serve(mailbox, core) ~= 0 then
        C.rl_unshare(ffi.gc(core, nil), 0)
        return nil, "out of memory"
    end
    return core, why
end

--- Waits until unshare() would not have to wait for answers, which would stop the loop; 50 ms at
-- most.
function _M.await_answers(client)
    for _ = 1, 50 do
        if rounds.load().rl_unshare_waits(client.core) == 0 then
            return
        end
        rounds.sleep(client, 0.001)
    end
end

--- Stops using a shared core. waits: its last user closes it; else its thread does, some seconds
-- later.
function _M.unshare(core, mailbox, waits)
    stop_serving(ffi.gc(core, nil), mailbox, waits and 1 or 0)
end

--- Changes the credentials that the next connections of node i (from 1) use. user may be nil.
-- @return false: no memory
function _M.set_password(core, i, user, password)
    return rounds.load().rl_set_password(core, i - 1, user, password) == 0
end

return _M
