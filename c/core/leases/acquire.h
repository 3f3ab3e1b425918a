/* acquire.h - an attempt: asks all nodes, and wins when a majority grants it in time. An
 * import is one, too: it asks for what the exported value still has. */
#ifndef ACQUIRE_H
#define ACQUIRE_H

#include "core/leases/lease.h"

/* See rl_acquire(). */
rl_round *acquire_begin(struct core *core, const rl_primitive *primitive,
                        const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                        rl_bytes value, int64_t lease_ms, int64_t within_ms, int gate,
                        int64_t now_ms, rl_lease **lease);

/* See rl_import(). */
rl_round *acquire_import(struct core *core, const rl_primitive *primitive,
                         const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                         rl_bytes old, rl_bytes value, int64_t lease_ms, int64_t token,
                         int once, int64_t now_ms, rl_lease **lease);

#endif
