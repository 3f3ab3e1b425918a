/* handover.h - a lease passes to another holder of the same process. */
#ifndef HANDOVER_H
#define HANDOVER_H

#include "core/lease.h"

/* As rl_handover(). */
rl_round *handover_begin(rl_lease *lease, const char *value, int64_t lease_ms,
                         int64_t now_ms, rl_lease **next);

/* Node i gave a valid answer: it has not the value that was to be replaced. */
void handover_answered(struct rl_lease *lease, int i);

/* The round's verdict: its outcome. */
int handover_decided(struct rl_lease *lease, const struct rl_round *round,
                     enum verdict verdict, int64_t now_ms);

/* The lease ends: so does what is left of the one before. */
void handover_undo(struct rl_lease *lease, int64_t now_ms);

#endif
