/* pace.h - begins due renewals a few at a time, those with the least validity left first,
 * so that other requests to the servers never wait for thousands.
 */
#ifndef PACE_H
#define PACE_H

#include "core/leases/lease.h"

/* The lease's renewal is due. 1: it waits for its turn, until pace_urgent_ms() at most;
 * 0: begin it now. */
int pace_waits(struct rl_lease *lease, int64_t now_ms);

/* The time from which the lease's renewal waits for no others. */
int64_t pace_urgent_ms(const struct rl_lease *lease);

/* Removes and returns the next lease to renew. NULL: none yet; if leases wait, a timer is
 * set. */
struct rl_lease *pace_next(struct core *core, int64_t now_ms);

#endif
