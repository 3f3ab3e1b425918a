/* cmd.h - the arguments of one script call, formatted once, sent to many nodes.
 *
 * A cmd holds the RESP bytes after the sha in "EVALSHA sha numkeys key... arg...": the
 * same bytes serve acquire, extend and release of one lease, by EVALSHA or EVAL.
 */
#ifndef CMD_H
#define CMD_H

#include "redlock.h"

enum { CMD_ROOM = 512 };     /* bytes of a pooled cmd; longer ones are allocated */

struct cmd {
    struct cmd *next;        /* in the pool */
    int refs;
    int argc;                /* RESP elements in bytes */
    size_t keys_at;          /* where the first key begins, after the number of keys */
    size_t first_end;        /* where the first key ends */
    size_t keys_end;         /* where the last key ends; a lease's value follows */
    size_t len;
    size_t cap;
    size_t lease_at;         /* where the element with the lease begins */
    size_t lease_len;        /* its length; 0: there is none */
    size_t token_len;        /* of the fencing token that follows; 0: none */
    char bytes[];
};

struct cmd_pool {
    struct cmd *free;
};

void cmd_pool_free(struct cmd_pool *pool);

/* KEYS and ARGV of a lease: ARGV = value, lease_ms, token unless it is negative, args.
 * NULL: out of memory. */
struct cmd *cmd_new_lease(struct cmd_pool *pool, const rl_bytes *keys, int nkeys,
                          rl_bytes value, int64_t lease_ms, int64_t token,
                          const rl_bytes *args, int nargs);

/* KEYS and ARGV as given. NULL: out of memory. */
struct cmd *cmd_new(struct cmd_pool *pool, const rl_bytes *keys, int nkeys,
                    const rl_bytes *args, int nargs);

/* A copy of a lease's cmd with another lease_ms. NULL: out of memory. */
struct cmd *cmd_with_lease(struct cmd_pool *pool, const struct cmd *cmd, int64_t lease_ms);

/* A copy of a lease's cmd with another token; it must have one. NULL: out of memory. */
struct cmd *cmd_with_token(struct cmd_pool *pool, const struct cmd *cmd, int64_t token);

/* The value in a lease's cmd, valid as long as the cmd. */
rl_bytes cmd_value(const struct cmd *cmd);

/* A short copy of a lease's cmd: the first key, the value and the lease. NULL: out of
 * memory. */
struct cmd *cmd_brief(struct cmd_pool *pool, const struct cmd *cmd);

struct cmd *cmd_ref(struct cmd *cmd);
void cmd_unref(struct cmd_pool *pool, struct cmd *cmd);

#endif
