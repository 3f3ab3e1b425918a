--- Opens and closes a client's C core: its own, or one that the clients of an event loop share.

local ffi = require "ffi"
local finalizers = require "redlock.runtime.finalizers"
local rounds = require "redlock.runtime.rounds"

local max = math.max

local _M = {}

local MAX_TEXT = 1024        -- bytes of an error of rl_open, which may name a file

-- The collector does not see that a core has a thread and descriptors. So after MANY that were
-- not closed it looks for clients that a program has dropped; twice, as it may be at work already.
local MANY, opened = 32, 0

local function count_opened()
    opened = opened + 1
    if opened == MANY then
        opened = 0
        collectgarbage()
        collectgarbage()
    end
end

-- close(core) is called when the core is collected.
local function kept(core, close, text)
    if core == nil then
        return nil, (ffi.string(text):gsub("[^ -~]", "?"))
    end
    return ffi.gc(core, finalizers.of_core(close))
end

--- Opens a core for one client, with rl_options and n rl_node_options.
-- @return the core, which closes when collected; or nil and a sentence: what is wrong
function _M.open(settings, nodes, n)
    count_opened()
    local C, text = rounds.load(), ffi.new("char[?]", MAX_TEXT)
    return kept(C.rl_open(nil, 0, settings, nodes, n, text, MAX_TEXT), C.rl_close, text)
end

--- Releases all locks of a core, and closes its connections.
function _M.close(core)
    opened = max(opened - 1, 0)
    rounds.load().rl_close(ffi.gc(core, nil))
end

local function stop_serving(core, mailbox, close)
    local C = rounds.load()
    C.rl_mailbox_unserve(mailbox, core)
    C.rl_unshare(core, close)
end

--- Like open(), for a core that all callers with the same key share, and that the loop which polls
-- the mailbox turns. key: a string with all that the core is opened with.
function _M.share(key, settings, nodes, n, mailbox)
    local C, text = rounds.load(), ffi.new("char[?]", MAX_TEXT)
    local core = C.rl_open(key, #key, settings, nodes, n, text, MAX_TEXT)
    if core ~= nil and C.rl_mailbox_serve(mailbox, core) ~= 0 then
        C.rl_unshare(core, 0)
        return nil, "out of memory"
    end
    return kept(core, function(c) stop_serving(c, mailbox, 0) end, text)
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
