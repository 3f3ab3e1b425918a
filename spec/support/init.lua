-- What the specs need: processes, Redis servers and ways to hurt both.
local client = require "spec.support.client"
local inspect = require "spec.support.inspect"
local lua = require "spec.support.lua"
local nginx = require "spec.support.nginx"
local outcome = require "spec.support.outcome"
local path = require "spec.support.path"
local proc = require "spec.support.proc"
local proxy = require "spec.support.proxy"
local redis = require "spec.support.redis"
local resp = require "spec.support.resp"
local scope = require "spec.support.scope"
local shim = require "spec.support.shim"
local sys = require "spec.support.sys"
local tls = require "spec.support.tls"

return {
    now = sys.now,
    sleep = sys.sleep,
    sh = sys.sh,
    eventually = sys.eventually,
    free_port = sys.free_port,
    tmpdir = scope.tmpdir,
    cleanup = scope.cleanup,
    spawn = proc.spawn,
    lua = lua.run,
    lua_env = lua.env,
    nginx = nginx.nginx,
    since = path.since,
    fails = outcome.fails,
    server = redis.server,
    cluster = redis.cluster,
    certificates = tls.certificates,
    tls_server = tls.server,
    connect = resp.connect,
    client = client.client,
    warm_client = client.warm_client,
    child = client.child,
    proxies = client.proxies,
    all = client.all,
    clock = shim.clock,
    proxy = proxy.proxy,
    hostile = proxy.hostile,
    rss = inspect.rss,
    threads = inspect.threads,
    fds = inspect.fds,
}
