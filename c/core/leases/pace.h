/* pace.h - whose renewal begins when many are due: a few at a time, those with the least
 * validity left first, so that what others ask the servers never waits for thousands.
 */
#ifndef PACE_H
#define PACE_H

#include "core/leases/lease.h"

/* The lease's renewal is due. 1: it waits for its turn, until pace_urgent_ms() at most;
 * 0: it is to begin now. */
int pace_waits(struct rl_lease *lease, int64_t now_ms);

/* From when on the lease's renewal waits for nobody. */
int64_t pace_urgent_ms(const struct rl_lease *lease);

/* Takes the next lease whose turn it is; NULL: none now, and the core looks again when one
 * may begin. */
struct rl_lease *pace_next(struct core *core, int64_t now_ms);

#endif
