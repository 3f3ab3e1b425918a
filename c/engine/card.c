#include "engine/card.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum {
    HEX_MAX = 16,
    NUMBER_MAX = 20,
    ROOM = 2 + HEX_MAX + RL_CARD_MAX
};
static_assert(RL_VALUE_LEN + ROOM <= RL_VALUE_MAX, "a value has room for its card");

/* Cached, because getpid() is a system call; 0: not asked yet. */
static _Atomic int cached_pid;

void card_after_fork(void)
{
    cached_pid = 0;
}

/* Writes n in this base. Returns the number of digits. */
static size_t put_number(char *out, uint64_t n, unsigned base)
{
    char digits[NUMBER_MAX];
    size_t len = 0;
    do
        digits[len++] = "0123456789abcdef"[n % base];
    while ((n /= base) != 0);
    for (size_t i = 0; i < len; i++)
        out[i] = digits[len - 1 - i];
    return len;
}

static size_t put_pid(char *out)
{
    int pid = cached_pid;
    if (!pid)
        cached_pid = pid = (int)getpid();
    return put_number(out, (uint64_t)pid, 10);
}

static size_t put_what_fits(char *out, size_t room, const char *data, size_t len)
{
    len = len < room ? len : room;
    memcpy(out, data, len);
    return len;
}

/* Copies the label, cut to RL_CARD_MAX bytes, with the pid in the place of each %p. */
static size_t put_label(char *out, const char *data, size_t len)
{
    size_t at = 0;
    char pid[NUMBER_MAX];
    const char *place;
    while ((place = memmem(data, len, "%p", 2))) {
        size_t before = (size_t)(place - data);
        at += put_what_fits(out + at, RL_CARD_MAX - at, data, before);
        at += put_what_fits(out + at, RL_CARD_MAX - at, pid, put_pid(pid));
        data += before + 2;
        len -= before + 2;
    }
    return at + put_what_fits(out + at, RL_CARD_MAX - at, data, len);
}

size_t card_write(char *out, const rl_bytes *label)
{
    if (!label)
        return 0;
    size_t len = 0;
    out[len++] = ' ';
    len += put_number(out + len, (uint64_t)rl_unix_ms(), 16);
    out[len++] = ' ';
    len += put_label(out + len, label->data, label->len);
    return len;
}
