/* fence.h - fencing tokens: a number per hold that only grows. */
#ifndef FENCE_H
#define FENCE_H

#include "core/leases/lease.h"

/* The verdict on an acquire, whose majority must witness one token; asks nodes to confirm
 * it if they do not agree. */
enum verdict fence_judge(struct rl_round *round, int64_t now_ms);

/* Gives up the confirmations of an acquire that has ended. */
void fence_end(struct rl_round *round);

/* Node i said yes with this counter. */
void fence_counted(struct rl_lease *lease, int i, int64_t counter);

/* Puts the round's token into all that the lease sends from now on. */
void fence_issue(struct rl_lease *lease, const struct rl_round *round);

/* Queue a round's command, or the release, for node i, with the run_id for scripts that
 * check in which server's memory they count. 0, or why not: rl_code. */
int fence_put(struct rl_round *round, int i, int64_t now_ms);
int fence_release(struct rl_round *release, int i, int64_t now_ms);

static inline int fence_is_token(int64_t n)
{
    return n > 0 && n < TOKEN_END;
}

#endif
