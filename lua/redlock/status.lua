--- A page for OpenResty that shows what the locks of this host do (types/status.lua).

local card = require "redlock.text.card"
local json = require "redlock.text.json"
local nonce = require("redlock.runtime.ffi_values").nonce
local page = require "redlock.status.page"
local validate = require "redlock.runtime.validate"

local ipairs, pairs, rawget, setmetatable, type = ipairs, pairs, rawget, setmetatable, type
local find = string.find
local ngx = rawget(_G, "ngx")

local _M = {}

local Status, methods = {}, {}

local OPTIONS = { metrics = true }
local SHOWN = 100            -- locks, and names with waiters, at most
local POLICY = "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    .. "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'nonce-%s'"

function _M.new(opts)
    opts = validate.options("options", opts, OPTIONS)
    local metrics = opts.metrics
    if type(metrics) ~= "table" or type(metrics.snapshot) ~= "function" or not metrics.dict then
        validate.bad("option metrics", "what redlock.metrics made is needed, with a dict")
    end
    return setmetatable({ metrics = metrics, host = card.host() }, Status)
end

-- The SHOWN entries whose field `by` is largest, in that order.
local function first_of(list, by)
    table.sort(list, function(a, b)
        return a[by] > b[by] or a[by] == b[by] and a.name < b.name
    end)
    for i = #list, SHOWN + 1, -1 do
        list[i] = nil
    end
    return list
end

local function servers_of(now)
    local list = {}
    for _, server in pairs(now.servers) do
        list[#list + 1] = server
    end
    table.sort(list, function(a, b) return a.server < b.server end)
    return list
end

-- The data of the page; and the function that lets other requests run.
local function page_data(self)
    local found, pause = self.metrics:snapshot()
    local now, lost = found.now, 0
    for _, slot in ipairs(found.chart) do
        lost = lost + slot.lost
    end
    return { host = self.host, time = found.time, held = now.held, waiting = now.waiting,
        clients = now.clients, workers = now.workers, servers = servers_of(now),
        holds = first_of(now.holds, "held"), queues = first_of(now.queues, "calls"),
        losses = found.losses, chart = found.chart, lost = lost }, pause
end

local TYPES = { html = "text/html; charset=utf-8", json = "application/json" }

function methods:html()
    local found, pause = page_data(self)
    local word = nonce()
    return page.render(found, word, pause), POLICY:format(word)
end

function methods:json()
    local found, pause = page_data(self)
    local seconds = found.chart.seconds
    found.chart.seconds = nil
    found.chart_seconds = seconds
    return json.encode(found, pause) .. "\n"
end

local function wanted()
    local how = ngx.var.arg_format
    if how == "html" or how == "json" or how == "prometheus" then
        return how
    end
    local accept = ngx.req.get_headers()["accept"]
    accept = type(accept) == "table" and table.concat(accept, ",") or accept or ""
    return find(accept, "text/html", 1, true) and "html"
        or find(accept, "application/json", 1, true) and "json"
        or (find(accept, "openmetrics", 1, true) or find(accept, "text/plain", 1, true))
        and "prometheus" or "html"
end

function methods:serve()
    if not (ngx and ngx.req) then
        validate.raise("redlock: serve() is for workers of nginx")
    end
    local how = wanted()
    ngx.header.cache_control = "no-store"
    ngx.header.x_content_type_options = "nosniff"
    if how == "prometheus" then
        return self.metrics:serve()
    end
    local body, policy = self[how](self)
    ngx.header.content_type = TYPES[how]
    ngx.header.content_security_policy = policy
    ngx.print(body)
end

function Status.__tostring()
    return "status"
end

validate.methods(Status, "status", methods)

return _M
