/* watchdog.h - renews leases in time, heals nodes, notices losses. */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include "core/lease.h"

/* As rl_keep() and rl_lease_lost(). */
void watchdog_start(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms,
                    int64_t now_ms);
int watchdog_lost_why(rl_lease *lease, int64_t now_ms);

/* Sets the timer of a held lease. */
void watchdog_schedule(struct rl_lease *lease);
void watchdog_on_timer(struct rl_lease *lease, int64_t now_ms);

/* Nobody can release the held lease any more: it ends with its time, or is released when
 * the client is closed before. */
void watchdog_orphan(struct rl_lease *lease);

/* The renewal under way is over. */
void watchdog_renewed(struct rl_lease *lease, int outcome, int64_t now_ms);

/* An extension was too late, or these votes disown the lease: it is lost. */
void watchdog_disowned(struct rl_lease *lease, const struct tally *votes, int64_t now_ms);

/* A majority confirmed the extension in time, but node i has lost our key: it gets it
 * again for the time that is left. */
void watchdog_heal(struct rl_lease *lease, const struct rl_round *round, int i,
                   int64_t now_ms);

/* A server's clock was stepped forward, and may have freed keys of ours: kept leases are
 * renewed now, which puts them back. lost_ms: on a majority by so much at least, so all
 * leases end so much earlier; 0: on fewer. */
void watchdog_hurry(struct core *core, int64_t lost_ms, int64_t now_ms);

/* The lease is lost, for the reason given, unless it is already. */
void watchdog_lose(struct rl_lease *lease, enum rl_loss reason);

#endif
