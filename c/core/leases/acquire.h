/* acquire.h - an attempt: asks all nodes, and wins when a majority grants it in time. */
#ifndef ACQUIRE_H
#define ACQUIRE_H

#include "core/leases/lease.h"

/* See rl_acquire(). */
rl_round *acquire_begin(struct core *core, const rl_primitive *primitive,
                        const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                        rl_bytes value, int64_t lease_ms, int64_t within_ms, int home,
                        int64_t now_ms, rl_lease **lease);

/* ---- for other rounds that put a new value onto servers ---- */

/* Applies the verdict to the lease; returns the round's outcome. */
typedef int acquire_outcome_fn(struct rl_lease *lease, const struct rl_round *round,
                               enum verdict verdict, int64_t now_ms);

/* Ends the round if its outcome is certain; unless that is a grant, the lease as well. */
void acquire_decide_as(struct rl_round *round, acquire_outcome_fn *outcome,
                       int64_t now_ms);

/* A majority has granted the lease: holds it unless too little validity is left. Returns
 * the outcome. */
int acquire_won(struct rl_lease *lease, const struct rl_round *round, int64_t now_ms);

/* RL_OK, or why a vote that looks like a grant is not one (rl_code). */
int acquire_granted(struct rl_round *round, int i, struct vote *vote);

/* Hooks. */
void acquire_late(struct rl_round *round, int i, const struct vote *vote, int64_t now_ms);
void acquire_broken(struct rl_round *round, int i, int written, int64_t now_ms);

#endif
