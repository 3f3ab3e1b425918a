#include "engine/card.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/base/marker.h"
#include "node/wire.h"

enum { TIME = 11 };               /* hex digits of the time, until the year 2527 */
static_assert(RL_VALUE_LEN + 2 + TIME + RL_CARD_MAX <= RL_VALUE_MAX, "a value has room for its card");

/* Cached, because getpid() is a system call; 0: not asked yet. */
static _Atomic int cached_pid;

void card_after_fork(void)
{
    cached_pid = 0;
}

static size_t put_pid(char *out)
{
    int pid = cached_pid;
    if (!pid)
        cached_pid = pid = (int)getpid();
    return wire_digits(out, (uint64_t)pid);
}

static size_t put_what_fits(char *out, size_t room, const char *data, size_t len)
{
    len = len < room ? len : room;
    memcpy(out, data, len);
    return len;
}

/* Copies the label, cut to RL_CARD_MAX bytes, with the pid in the place of each %p: the
 * whole pid, or the label ends before it. */
static size_t put_label(char *out, const char *data, size_t len)
{
    size_t at = 0;
    char pid[WIRE_DIGITS];
    const char *place;
    while ((place = memmem(data, len, "%p", 2))) {
        size_t before = (size_t)(place - data), digits = put_pid(pid);
        at += put_what_fits(out + at, RL_CARD_MAX - at, data, before);
        if (at + digits > RL_CARD_MAX)
            return at;
        memcpy(out + at, pid, digits);
        at += digits;
        data += before + 2;
        len -= before + 2;
    }
    return at + put_what_fits(out + at, RL_CARD_MAX - at, data, len);
}

size_t card_write(char *out, const rl_bytes *label)
{
    if (!label)
        return 0;
    out[0] = ' ';
    marker_hex((uint64_t)rl_unix_ms(), TIME, out + 1);
    out[1 + TIME] = ' ';
    return 2 + TIME + put_label(out + 2 + TIME, label->data, label->len);
}
