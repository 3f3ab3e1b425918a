/* command.c - parses what servers receive. Most commands go to several servers, and Lua
 * should build their strings once: world.step.known is the number under which it keeps
 * them, or minus that number if it must build them anew. */
#include "world/world.h"

#include <assert.h>
#include <string.h>

#include "node/buf.h"

static struct buf known[SIM_KNOWN];      /* the last command of each hash */

static int number(const char **at, const char *end, char sign, long *n)
{
    const char *p = *at;
    if (p >= end || *p++ != sign)
        return -1;
    for (*n = 0; p < end && *p != '\r'; p++)
        *n = *n * 10 + (*p - '0');
    if (p + 2 > end)
        return -1;
    *at = p + 2;
    return 0;
}

/* Like FNV-1a, of whole words of eight bytes: equal hashes are compared anyway. */
static uint32_t hash(const char *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325ULL ^ len, part;
    for (; len >= 8; bytes += 8, len -= 8) {
        memcpy(&part, bytes, 8);
        h = (h ^ part) * 0x100000001b3ULL;
        h ^= h >> 29;
    }
    return (uint32_t)(h ^ h >> 32);
}

static void know(const char *bytes, size_t len)
{
    uint32_t at = hash(bytes, len) % SIM_KNOWN;
    struct buf *b = &known[at];
    world.step.known = (int32_t)at + 1;
    if (buf_len(b) == len && memcmp(b->data + b->start, bytes, len) == 0)
        return;
    world.step.known = -world.step.known;
    buf_clear(b);
    char *room = buf_reserve(b, len);
    assert(room);
    memcpy(room, bytes, len);
    b->end += len;
}

size_t command_take(const char *bytes, size_t size)
{
    const char *at = bytes, *end = bytes + size;
    long argc, len;
    if (number(&at, end, '*', &argc) < 0)
        return 0;
    assert(argc >= 1 && argc <= SIM_ARGS);
    for (int i = 0; i < argc; i++) {
        if (number(&at, end, '$', &len) < 0 || at + len + 2 > end)
            return 0;
        world.step.argv[i].data = at;
        world.step.argv[i].len = (size_t)len;
        at += len + 2;
    }
    world.step.argc = (int)argc;
    know(bytes, (size_t)(at - bytes));
    return (size_t)(at - bytes);
}
