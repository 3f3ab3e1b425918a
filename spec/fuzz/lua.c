/* lua.c - arguments of the Lua API made of the input: spec/fuzz/arguments.lua has the
 * properties. Which lines of Lua run is told to libFuzzer by a hook, so that it looks for
 * inputs that reach new ones.
 *
 *   LUA_PATH, LUA_CPATH as for the library; run from the root of the repository.
 */
#include <lauxlib.h>
#include <lualib.h>

#include "fuzz.h"

enum { COUNTERS = 1 << 14 };

__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t counters[COUNTERS];

static lua_State *L;
static int property;

static void on_line(lua_State *state, lua_Debug *ar)
{
    lua_getinfo(state, "S", ar);
    uint32_t h = 2166136261u;           /* FNV-1a (Fowler, Noll, Vo) */
    for (const char *c = ar->short_src; *c; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    counters[(h + (uint32_t)ar->currentline) % COUNTERS]++;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, lua_tostring(L, -1));
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    L = luaL_newstate();
    MUST(L);
    luaL_openlibs(L);
    /* Compiled code calls no hooks. */
    if (luaL_dostring(L, "jit.off()") || luaL_dofile(L, "spec/fuzz/arguments.lua"))
        fail("cannot begin");
    property = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_sethook(L, on_line, LUA_MASKLINE, 0);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, property);
    lua_pushlstring(L, (const char *)data, size);
    if (lua_pcall(L, 1, 0, 0))
        fail("a property does not hold");
    lua_settop(L, 0);
    return 0;
}
