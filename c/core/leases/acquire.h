/* acquire.h - an attempt: asked for on all nodes, won by a majority that confirms in
 * time. */
#ifndef ACQUIRE_H
#define ACQUIRE_H

#include "core/leases/lease.h"

/* As rl_acquire(). */
rl_round *acquire_begin(struct core *core, const rl_primitive *primitive,
                        const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                        rl_bytes value, int64_t lease_ms, int64_t within_ms, int home,
                        int64_t now_ms, rl_lease **lease);

/* ---- for other rounds that put a new value onto servers ---- */

/* What the verdict on such a round means for its lease: the round's outcome. */
typedef int acquire_outcome_fn(struct rl_lease *lease, const struct rl_round *round,
                               enum verdict verdict, int64_t now_ms);

/* Ends the round if its outcome is certain, and the lease as well unless that is a
 * grant. */
void acquire_decide_as(struct rl_round *round, acquire_outcome_fn *outcome,
                       int64_t now_ms);

/* The majority is there: the lease is held, unless its time is over. The outcome. */
int acquire_won(struct rl_lease *lease, const struct rl_round *round, int64_t now_ms);

/* RL_OK, or why a vote that looks like a grant is none (rl_code). */
int acquire_granted(struct rl_round *round, int i, struct vote *vote);

/* Hooks. */
void acquire_late(struct rl_round *round, int i, const struct vote *vote, int64_t now_ms);
void acquire_torn(struct rl_round *round, int i, int written, int64_t now_ms);

#endif
