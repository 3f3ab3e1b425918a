-- Certificates made on the spot, and Redis servers that use them.
local redis = require "spec.support.redis"
local scope = require "spec.support.scope"
local shim = require "spec.support.shim"
local sys = require "spec.support.sys"

local _M = {}

local MAKE = [[
exec 2>&1; set -e; cd '%s'
ca() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 60 \
        -subj "/CN=$1" -keyout "$1.key" -out "$1.crt"
}
cert() { # NAME CA DAYS ALTERNATIVE-NAMES
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$1.key" -out "$1.csr"
    echo "${4:+subjectAltName=$4}" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days "$3" \
        -extfile "$1.ext" -out "$1.crt"
}
here=DNS:localhost,IP:127.0.0.1,IP:::1
ca ca
ca other-ca
cert good ca 60 "$here"
cert named ca 2 DNS:localhost
cert wildcard ca 2 DNS:*.example.org
cert wrong-host ca 2 DNS:example.org,IP:10.0.0.1
(export LD_PRELOAD='%s' CLOCKSHIM='%s'; cert expired ca 1 "$here")      # two days ago
cert client ca 60 DNS:client
cert stranger other-ca 2 DNS:stranger
cert elsewhere other-ca 2 "$here"
cert localhost ca 2
cert forged client 2 "$here"
cat client.crt >> forged.crt
]]

-- A folder with NAME.crt and NAME.key for each of the names above.
function _M.certificates()
    local dir = scope.tmpdir()
    local clock = shim.clock()
    clock:set(-2 * 86400)
    local p = assert(io.popen(MAKE:format(dir, clock.env.LD_PRELOAD, clock.env.CLOCKSHIM)))
    local said = p:read "*a"
    p:close()
    if not sys.read_file(dir .. "/stranger.crt") then
        error("openssl failed: " .. said)
    end
    return dir
end

-- A server with the certificate `name`, which has a plain port (server.port, server.uri)
-- and one with TLS (server.tls_port, server.tls_uri: by address). opts: clients = "yes":
-- it wants client certificates; args; password.
function _M.server(dir, name, opts)
    opts = opts or {}
    local port = sys.free_port()
    local args = { "--tls-port", port, "--tls-cert-file", ("%s/%s.crt"):format(dir, name),
        "--tls-key-file", ("%s/%s.key"):format(dir, name), "--tls-ca-cert-file", dir .. "/ca.crt",
        "--tls-auth-clients", opts.clients or "no" }
    for _, arg in ipairs(opts.args or {}) do
        args[#args + 1] = arg
    end
    local server = redis.server { args = args, password = opts.password }
    server.tls_port = port
    server.tls_uri = "rediss://127.0.0.1:" .. port
    return server
end

return _M
