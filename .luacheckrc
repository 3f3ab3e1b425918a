std = "luajit"
max_line_length = 100
cache = false
exclude_files = { "build" }
files["spec"] = { std = "luajit+busted" }
files[".busted"] = { std = "luajit" }
files["lua/redlock/host/nginx*.lua"] = { std = "ngx_lua" }
files["examples/testing"] = { std = "luajit+busted" }
files["examples/nginx"] = { std = "ngx_lua" }
files["examples/gateway"] = { std = "ngx_lua" }
files["examples/recipes"] = { read_globals = { "redlock", "client", "args", "run" } }
files["examples/workflows"] = { read_globals = { "redlock", "client", "args", "run" } }
files["spec/chaos/handler.lua"] = { std = "ngx_lua" }
files["spec/support/requests.lua"] = { std = "ngx_lua", read_globals = { "client" } }
-- Signatures without bodies.
files["lua/redlock/types"] = { ignore = { "212", "241" } }
files["lua/redlock/types.lua"] = { ignore = { "212", "241" } }
-- Scripts that run inside Redis.
files["lua/redlock/scripts"] = { std = "lua51", read_globals = { "redis", "KEYS", "ARGV", "no_lock",
    "value", "not_a_lock", "named", "is_named", "done" }, globals = { "removed" } }
files["lua/redlock/scripts/marker/show.lua"] = { read_globals = { "want", "SCRIPT" } }
files["lua/redlock/scripts/latch"] = { read_globals = { "is_named", "done" },
    globals = { "removed", "id", "count" } }
files["lua/redlock/scripts/multi"] = { read_globals = { "found", "n", "start_of" } }
files["lua/redlock/scripts/fenced"] = {
    read_globals = { "value", "token", "counter", "count_to", "run", "replaced",
        "call", "write", "found", "let_go", "stored", "mine", "lent", "counted_in", "sub", "RUN",
        "floor_of_bucket" },
}
for _, name in ipairs { "rw", "slots", "fair", "inspect" } do
    files["lua/redlock/scripts/" .. name] = {
        read_globals = { "call", "now", "kind", "me", "put", "agreed", "free", "wake_head", "leave",
            "ttl", "value", "describe", "prefix", "LONG", "door", "keep" },
        globals = { "mine", "removed" },
    }
end
for _, field in ipairs { "floor_of_bucket", "counted_in", "write", "sub", "RUN" } do
    table.insert(files["lua/redlock/scripts/slots"].read_globals, field)
end
-- They declare what the others use.
files["lua/redlock/scripts/slots/memory.lua"] = { globals = { "ARGV" } }
for _, name in ipairs { "now", "lock/shape", "lock/named", "multi/start_of", "lock/acquire", "lock/extend",
    "lock/release", "rw/door", "rw/readers", "rw/read_acquire", "slots/slots",
    "fair/queue", "inspect/describe", "latch/read" } do
    files["lua/redlock/scripts/" .. name .. ".lua"] = { ignore = { "211", "231", "311" } }
end
for _, name in ipairs { "counter", "counted", "let_go", "replaced", "voting" } do
    files["lua/redlock/scripts/fenced/" .. name .. ".lua"] = { ignore = { "211", "231", "311" } }
end
files["lua/redlock/scripts/fenced/counted.lua"].globals = { "run" }
