/* fence.h - fencing tokens: a number per hold that only grows. */
#ifndef FENCE_H
#define FENCE_H

#include "core/leases/lease.h"

/* The outcome of an acquire whose majority must have witnessed one token; asks for
 * confirmations when that takes a second round trip. */
enum verdict fence_judge(struct rl_round *round, int64_t now_ms);

/* The acquire is over. */
void fence_end(struct rl_round *round);

/* Node i said yes, and has counted so far. */
void fence_counted(struct rl_lease *lease, int i, int64_t counter);

/* Puts the token of the lease's round into whatever the lease sends from now on. */
void fence_issue(struct rl_lease *lease, const struct rl_round *round);

/* Queue a round's command, or the release, for node i, with what a script that must know
 * which memory it counts in needs beside. 0, or why not: rl_code. */
int fence_put(struct rl_round *round, int i, int64_t now_ms);
int fence_release(struct rl_round *release, int i, int64_t now_ms);

/* Counters and tokens: whole numbers that Lua, JSON and a printed text keep as they
 * are. */
#define TOKEN_END INT64_C(100000000000000)

static inline int fence_is_token(int64_t n)
{
    return n > 0 && n < TOKEN_END;
}

#endif
