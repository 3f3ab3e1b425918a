rockspec_format = "3.0"
package = "redlock"
version = "dev-1"
source = {
    url = "file://.",       -- of a checkout: luarocks make rockspec/redlock-dev-1.rockspec
}
description = {
    summary = "Distributed locks on N independent Redis servers, for LuaJIT and OpenResty",
    detailed = [[
        Redlock with a compact C core: a majority of the servers, drift-corrected validity,
        early decisions, nothing left behind, errors that say which of held, unreachable or
        expired it was.
    ]],
    license = "MIT",
    labels = { "redis", "lock", "luajit", "openresty" },
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.1, < 5.2" }    -- LuaJIT
external_dependencies = {
    HIREDIS = { header = "hiredis/hiredis.h", library = "hiredis" },
}
build = {
    -- "builtin" cannot pass linker flags, and litters the source tree.
    type = "make",
    build_target = "all",
    install_target = "install-rock",
    build_variables = {
        CC = "$(CC)",
        CFLAGS = "$(CFLAGS) -g -fstack-protector-strong -U_FORTIFY_SOURCE "
            .. "-D_FORTIFY_SOURCE=2",
        HIREDIS_INCDIR = "$(HIREDIS_INCDIR)",
        HIREDIS_LIBDIR = "$(HIREDIS_LIBDIR)",
    },
    install_variables = {
        CC = "$(CC)",
        CFLAGS = "$(CFLAGS) -g -fstack-protector-strong -U_FORTIFY_SOURCE "
            .. "-D_FORTIFY_SOURCE=2",
        HIREDIS_INCDIR = "$(HIREDIS_INCDIR)",
        HIREDIS_LIBDIR = "$(HIREDIS_LIBDIR)",
        LUADIR = "$(LUADIR)",
        LIBDIR = "$(LIBDIR)",
        BINDIR = "$(BINDIR)",
    },
}
-- The command finds its modules and its interpreter, luajit, by itself; the one that luarocks
-- would start it with may be another.
deploy = { wrap_bin_scripts = false }
test = {
    type = "busted",
    flags = { "--lua=luajit" },
}
