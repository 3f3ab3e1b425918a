#include "node/cmd.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/wire.h"

enum {
    HEAD_MAX = 32,           /* RESP bytes around one element */
    INT_MAX_LEN = 48         /* an integer element */
};

void cmd_pool_free(struct cmd_pool *pool)
{
    while (pool->free) {
        struct cmd *cmd = pool->free;
        pool->free = cmd->next;
        free(cmd);
    }
}

static struct cmd *cmd_alloc(struct cmd_pool *pool, size_t room)
{
    struct cmd *cmd = NULL;
    if (room <= CMD_ROOM && pool->free) {
        cmd = pool->free;
        pool->free = cmd->next;
    } else {
        size_t cap = room <= CMD_ROOM ? CMD_ROOM : room;
        cmd = malloc(sizeof(*cmd) + cap);
        if (!cmd)
            return NULL;
        cmd->cap = cap;
    }
    *cmd = (struct cmd){.refs = 1, .cap = cmd->cap};
    return cmd;
}

/* The functions below write into the room that cmd_alloc() reserved: they cannot fail. */

static void put(struct cmd *cmd, const char *data, size_t len)
{
    struct buf b = {.data = cmd->bytes, .end = cmd->len, .cap = cmd->cap};
    wire_bulk(&b, data, len);
    assert(b.data == cmd->bytes);
    cmd->len = b.end;
    cmd->argc++;
}

/* Returns the length of the element. */
static size_t put_int(struct cmd *cmd, int64_t n)
{
    char digits[WIRE_DIGITS];
    size_t at = cmd->len;
    assert(n >= 0);
    put(cmd, digits, wire_digits(digits, (uint64_t)n));
    return cmd->len - at;
}

static size_t room_for(const rl_bytes *items, int n)
{
    size_t room = 0;
    for (int i = 0; i < n; i++)
        room += items[i].len + HEAD_MAX;
    return room;
}

static struct cmd *cmd_with_keys(struct cmd_pool *pool, const rl_bytes *keys, int nkeys,
                                 size_t more)
{
    struct cmd *cmd = cmd_alloc(pool, INT_MAX_LEN + room_for(keys, nkeys) + more);
    if (!cmd)
        return NULL;
    put_int(cmd, nkeys);
    cmd->keys_at = cmd->len;
    for (int i = 0; i < nkeys; i++) {
        put(cmd, keys[i].data, keys[i].len);
        if (i == 0)
            cmd->first_end = cmd->len;
    }
    cmd->keys_end = cmd->len;
    return cmd;
}

struct cmd *cmd_new_lease(struct cmd_pool *pool, const rl_bytes *keys, int nkeys,
                          rl_bytes value, int64_t lease_ms, int64_t token,
                          const rl_bytes *args, int nargs)
{
    size_t more = value.len + HEAD_MAX + 2 * INT_MAX_LEN + room_for(args, nargs);
    struct cmd *cmd = cmd_with_keys(pool, keys, nkeys, more);
    if (!cmd)
        return NULL;
    put(cmd, value.data, value.len);
    cmd->lease_at = cmd->len;
    cmd->lease_len = put_int(cmd, lease_ms);
    if (token >= 0)
        cmd->token_len = put_int(cmd, token);
    for (int i = 0; i < nargs; i++)
        put(cmd, args[i].data, args[i].len);
    return cmd;
}

struct cmd *cmd_new(struct cmd_pool *pool, const rl_bytes *keys, int nkeys,
                    const rl_bytes *args, int nargs)
{
    struct cmd *cmd = cmd_with_keys(pool, keys, nkeys, room_for(args, nargs));
    for (int i = 0; cmd && i < nargs; i++)
        put(cmd, args[i].data, args[i].len);
    return cmd;
}

/* A copy with the element of len bytes at `at` replaced by n;
 * *new_len: the length now. */
static struct cmd *cmd_with_int(struct cmd_pool *pool, const struct cmd *old, size_t at,
                                size_t len, int64_t n, size_t *new_len)
{
    assert(len);
    struct cmd *cmd = cmd_alloc(pool, old->len + INT_MAX_LEN);
    if (!cmd)
        return NULL;
    size_t cap = cmd->cap;
    *cmd = *old;             /* all but the bytes */
    cmd->cap = cap;
    cmd->refs = 1;
    memcpy(cmd->bytes, old->bytes, at);
    cmd->len = at;
    *new_len = put_int(cmd, n);
    memcpy(cmd->bytes + cmd->len, old->bytes + at + len, old->len - at - len);
    cmd->len += old->len - at - len;
    cmd->argc = old->argc;
    return cmd;
}

struct cmd *cmd_with_lease(struct cmd_pool *pool, const struct cmd *old, int64_t lease_ms)
{
    size_t len;
    struct cmd *cmd =
        cmd_with_int(pool, old, old->lease_at, old->lease_len, lease_ms, &len);
    if (cmd)
        cmd->lease_len = len;
    return cmd;
}

struct cmd *cmd_with_token(struct cmd_pool *pool, const struct cmd *old, int64_t token)
{
    size_t len;
    struct cmd *cmd = cmd_with_int(pool, old, old->lease_at + old->lease_len,
                                   old->token_len, token, &len);
    if (cmd)
        cmd->token_len = len;
    return cmd;
}

rl_bytes cmd_value(const struct cmd *cmd)
{
    /* "$40\r\n...\r\n", right before the lease. */
    const char *from = memchr(cmd->bytes + cmd->keys_end, '\n', cmd->lease_at - cmd->keys_end);
    const char *end = cmd->bytes + cmd->lease_at - 2;
    return (rl_bytes){from + 1, (size_t)(end - from - 1)};
}

struct cmd *cmd_brief(struct cmd_pool *pool, const struct cmd *old)
{
    size_t key_len = old->first_end - old->keys_at;
    size_t args_len = old->lease_at + old->lease_len - old->keys_end;
    struct cmd *cmd = cmd_alloc(pool, INT_MAX_LEN + key_len + args_len);
    if (!cmd)
        return NULL;
    put_int(cmd, 1);
    memcpy(cmd->bytes + cmd->len, old->bytes + old->keys_at, key_len);
    memcpy(cmd->bytes + cmd->len + key_len, old->bytes + old->keys_end, args_len);
    cmd->len += key_len + args_len;
    cmd->argc += 3;
    return cmd;
}

struct cmd *cmd_ref(struct cmd *cmd)
{
    cmd->refs++;
    return cmd;
}

void cmd_unref(struct cmd_pool *pool, struct cmd *cmd)
{
    assert(cmd->refs > 0);
    if (--cmd->refs > 0)
        return;
    if (cmd->cap != CMD_ROOM) {
        free(cmd);
        return;
    }
    cmd->next = pool->free;
    pool->free = cmd;
}
