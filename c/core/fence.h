/* fence.h - fencing tokens: a number per hold that only grows. */
#ifndef FENCE_H
#define FENCE_H

#include "core/lease.h"

/* The outcome of an acquire whose majority must have witnessed one token; asks for
 * confirmations when that takes a second round trip. */
enum verdict fence_judge(struct rl_round *round, int64_t now_ms);

/* Node i answered a confirmation, or its connection broke. code: why it is no answer. */
void fence_answer(struct rl_round *confirm, int i, int code, int vote, int64_t counter,
                  int64_t now_ms);
void fence_torn(struct rl_round *confirm, int i, int64_t now_ms);

/* The acquire is over. */
void fence_end(struct rl_round *round);

/* Node i said yes, and has counted so far. */
void fence_counted(struct rl_lease *lease, int i, int64_t counter);

/* Queues the release for node i. 0, or why not: rl_code. */
int fence_release(struct rl_round *release, int i, int64_t now_ms);

/* Counters and tokens: whole numbers that Lua, JSON and a printed text keep as they are. */
#define TOKEN_END INT64_C(100000000000000)

static inline int fence_is_token(int64_t n)
{
    return n > 0 && n < TOKEN_END;
}

#endif
