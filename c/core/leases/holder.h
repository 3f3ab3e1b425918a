/* holder.h - what a holder does with its lease; redlock.h has the contracts. */
#ifndef HOLDER_H
#define HOLDER_H

#include "core/leases/lease.h"

rl_round *holder_extend(rl_lease *lease, int64_t lease_ms, int64_t now_ms);
rl_round *holder_release(rl_lease *lease, int64_t now_ms);

/* See rl_lease_free(). */
void holder_drop(rl_lease *lease, int64_t now_ms);
void holder_abandon(rl_lease *lease, int64_t now_ms);
void holder_orphan(rl_lease *lease, int64_t now_ms);
void holder_disown(rl_lease *lease, int64_t now_ms);

/* Ends what a request held, which has ended, like holder_orphan(). The handles stay. */
void holder_orphan_all(struct core *core, const int32_t *request, int64_t now_ms);

#endif
