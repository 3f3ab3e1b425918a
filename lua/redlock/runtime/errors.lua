--- Structured errors: what happened as a code, as a sentence, and node by node.
-- types.lua documents their fields (redlock.Error): plain values, which cjson.encode() writes.

local node_codes = require "redlock.runtime.node_codes"
local quorum = require("redlock.runtime.limits").quorum

local error, setmetatable, getmetatable, tostring, type, ipairs, pairs, pcall, select, unpack =
    error, setmetatable, getmetatable, tostring, type, ipairs, pairs, pcall, select, unpack
local find, format, concat = string.find, string.format, table.concat

local _M = {}

local SENTENCES = {
    held = "%s is held by somebody else",
    no_quorum = "%s: no majority of the servers answered",
    expired = "%s: the lease has ended",
    lost = "%s: the lease is lost",
    not_found = "%s does not exist: it was never made, has ended or was deleted, or a "
        .. "majority of the servers has forgotten it",
    not_a_lock = "%s: its key is not a lock",
    not_held = "%s is not held by this owner",
    unknown = "%s: no majority of the servers confirmed this; on servers that did not receive it, "
        .. "the lock ends with its lease",
    cancelled = "%s was cancelled",
    closed = "%s: the client is closed, or this worker of nginx exits",
    unsupported = "%s: this kind of lock does not support that",
    deadlock = "%s is held by another owner of this thread or request, or by this owner: as "
        .. "another kind of lock, in another set of names, or around `once`. That holder cannot "
        .. "release it while this call waits. Use the same opts.owner, or lockAsync in plain "
        .. "LuaJIT",
    phase = "%s: the caller cannot wait here. In nginx it can wait in rewrite, access, content, "
        .. "timers and others (examples/nginx/README.md); in other event loops, in a coroutine",
    overload = "%s: too many callers in this process are waiting for locks already. Admit fewer, "
        .. "shorten their waits, or raise the option max_waiting",
    timeout = "%s: the time ran out",
    config = "%s",
    nomem = "%s: out of memory, threads or file descriptors",
}

local NO_VOTES = "%s: no majority of the servers gave its vote"

-- String methods work on an error's text: err:find "timeout", err:match, err:sub ...
local Error, methods = {}, {}
Error.__index = methods

for name, fn in pairs(string) do
    methods[name] = function(err, ...)
        return fn(tostring(err), ...)
    end
end

function Error:__tostring()
    return "redlock: " .. self.code .. ": " .. self.message
end

function Error.__concat(a, b)
    return tostring(a) .. tostring(b)
end

-- Whether a majority answered (of a failed round: with reasons for giving no vote).
local function answered(nodes)
    local n = 0
    for _, row in ipairs(nodes or {}) do
        local code = node_codes[row.code]
        n = n + (code and code.silent and 0 or 1)
    end
    return nodes ~= nil and n >= quorum(#nodes)
end

local function sentence(code, subject, nodes, reason)
    local what = type(subject) == "table" and subject:describe() or subject
    local known = code == "no_quorum" and answered(nodes) and NO_VOTES or SENTENCES[code]
    local text = format(known or "%s: " .. code, what)
        .. (reason and " (" .. reason .. ")" or "")
    if not nodes then
        return text
    end
    local said = {}
    for i, row in ipairs(nodes) do
        said[i] = row.node .. " " .. (row.code == "ok" and row.message
            or row.code .. " (" .. row.message .. ")")
    end
    return text .. ": " .. concat(said, "; ")
end

--- An error with a code, about a subject: a string, or an object with describe(). nodes: a row for
-- each server (redlock.NodeAnswer), or nil.
function _M.new(code, subject, nodes)
    return setmetatable({ code = code, message = sentence(code, subject, nodes), nodes = nodes },
        Error)
end

--- Adds to an error why its hold was lost, as onLost gets it.
function _M.because(err, subject, reason)
    err.reason, err.message = reason, sentence(err.code, subject, err.nodes, reason)
end

--- Adds to an error who holds its lock: err.holder, or nil; and what the message says, or nil.
function _M.name(err, subject, holder, text)
    err.holder, err.message = holder, sentence(err.code, subject, err.nodes, text)
end

local function is_interrupt(err)
    return type(err) == "string" and find(err, "interrupted!$") ~= nil
end

--- Raises a caught Ctrl-C again. It raises an error at any instruction of a program of luajit, and
-- is meant for the whole program. Returns if `err` is something else.
function _M.rethrow_interrupt(err)
    if is_interrupt(err) then
        error(err, 0)
    end
end

--- The text for an error that a user's function raised and that its caller must not get. Raises a
-- caught Ctrl-C again. what: such as "the on_event function"; err: any value, also one whose
-- __tostring fails.
function _M.failed(what, err)
    _M.rethrow_interrupt(err)
    local ok, text = pcall(tostring, err)
    return format("%s failed: %s", what, ok and type(text) == "string" and text or type(err))
end

--- Calls fn(...), which gives something back. After Ctrl-C inside fn, calls it a second time, and
-- raises the interrupt: luajit catches one signal only.
-- @return as pcall(), with at most two results
function _M.finally(fn, ...)
    local ok, a, b = pcall(fn, ...)
    if not ok and is_interrupt(a) then
        pcall(fn, ...)
        error(a, 0)
    end
    return ok, a, b
end

-- Splits the results of a function: the first, then the number and a list of the others.
local function pack(ok, ...)
    return ok, select("#", ...), { ... }
end

--- Calls fn(...), then after(whether fn returned), whatever happens. An error of fn, else of after,
-- is raised again.
-- @return what after returned, which is not nil, and the results of fn; or nil and the second
--   value that after returned
function _M.around(fn, after, ...)
    local ok, n, results = pack(pcall(fn, ...))
    local left, a, b = _M.finally(after, ok)
    if not ok or not left then
        error(ok and a or results[1], 0)
    elseif a == nil then
        return nil, b
    end
    return a, unpack(results, 1, n)
end

function _M.is_error(value)
    return getmetatable(value) == Error
end

return _M
