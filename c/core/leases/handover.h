/* handover.h - passes a held lease to another holder in the same process. */
#ifndef HANDOVER_H
#define HANDOVER_H

#include "core/leases/lease.h"

/* See rl_handover(). */
rl_round *handover_begin(rl_lease *lease, const rl_primitive *kind, rl_bytes value,
                         int64_t lease_ms, int64_t now_ms, rl_lease **next);

#endif
