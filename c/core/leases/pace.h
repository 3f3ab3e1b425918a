/* pace.h - begins due renewals a few at a time, those with the least validity left first,
 * so that other requests to the servers never wait for thousands.
 */
#ifndef PACE_H
#define PACE_H

#include "core/leases/lease.h"

/* The lease's renewal is due. 1: it waits for its turn, until pace_urgent_ms() at most;
 * 0: begin it now. */
int pace_waits(struct rl_lease *lease, int64_t now_ms);

/* From then on the lease's renewal no longer waits for others. */
int64_t pace_urgent_ms(const struct rl_lease *lease);

/* Takes the next lease whose turn it is. NULL: none now; sets a timer if leases wait. */
struct rl_lease *pace_next(struct core *core, int64_t now_ms);

#endif
