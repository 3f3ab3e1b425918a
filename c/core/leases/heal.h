/* heal.h - a node that lost the keys of a lease gets them again. */
#ifndef HEAL_H
#define HEAL_H

#include "core/leases/lease.h"

/* A majority confirmed the extension in time, but node i has lost our key: the node gets
 * the key again for the time that is left. */
void heal_begin(struct rl_lease *lease, const struct rl_round *extension, int i,
                int64_t now_ms);

#endif
