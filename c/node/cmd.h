/* cmd.h - the arguments of one script call, formatted once, sent to many nodes.
 *
 * A cmd holds the RESP bytes behind the script in "EVALSHA sha numkeys key... arg...":
 * the same bytes serve acquire, extend and release of one lease, by EVALSHA or EVAL.
 */
#ifndef CMD_H
#define CMD_H

#include "redlock.h"

enum { CMD_ROOM = 512 };     /* bytes of a pooled cmd; longer ones are allocated */

struct cmd {
    struct cmd *next;        /* in the pool */
    int refs;
    int argc;                /* RESP elements in bytes */
    int nkeys;
    size_t keys_at;          /* where the keys begin, behind their number ... */
    size_t first_end;        /* ... where the first of them ends ... */
    size_t keys_end;         /* ... and all of them; in a lease's cmd the value follows */
    size_t len;
    size_t cap;
    size_t lease_at;         /* where the element with the lease begins, and its length; */
    size_t lease_len;        /* 0: there is none */
    size_t token_len;        /* of the fencing token right behind it; 0: there is none */
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

/* A copy of a lease's cmd, which has a token, with another one. NULL: out of memory. */
struct cmd *cmd_with_token(struct cmd_pool *pool, const struct cmd *cmd, int64_t token);

/* A copy of a lease's cmd with another value and lease_ms. NULL: out of memory. */
struct cmd *cmd_with_value(struct cmd_pool *pool, const struct cmd *cmd, rl_bytes value,
                           int64_t lease_ms);

/* A copy of a lease's cmd with a further argument behind the lease: the value that its
 * own is to replace. NULL: out of memory. */
struct cmd *cmd_with_old(struct cmd_pool *pool, const struct cmd *cmd, rl_bytes old_value);

/* The value in a lease's cmd, as long as the cmd lasts. */
rl_bytes cmd_value(const struct cmd *cmd);

/* Of a lease's cmd the first key, the value and the lease. NULL: out of memory. */
struct cmd *cmd_brief(struct cmd_pool *pool, const struct cmd *cmd);

struct cmd *cmd_ref(struct cmd *cmd);
void cmd_unref(struct cmd_pool *pool, struct cmd *cmd);

#endif
