/* heal.h - restores the keys of a lease on a node that lost them. */
#ifndef HEAL_H
#define HEAL_H

#include "core/leases/lease.h"

/* Node i lacks our key, but the round made or kept the lease ours: sets it for the time that is
 * left. */
void heal_begin(struct rl_lease *lease, const struct rl_round *round, int i, int64_t now_ms);

/* Before the release of an imported lease: an import that did not reach node i has left the
 * exported value there, which nobody else would release. Replaces it, for a moment. */
void heal_imported(struct rl_lease *lease, int i, int64_t now_ms);

#endif
