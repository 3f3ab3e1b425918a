/* watchdog.h - extends and renews holds, and notices their loss. */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include "core/leases/lease.h"

/* See rl_keep(), which does nothing for a lease that is not held, and rl_lease_lost(). */
void watchdog_start(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms,
                    int64_t now_ms);
int watchdog_lost_why(rl_lease *lease, int64_t now_ms);

/* Makes the lease a held one, valid until deadline_ms. */
void watchdog_hold(struct rl_lease *lease, int64_t deadline_ms, int64_t now_ms);

/* The timer of a held lease. */
void watchdog_on_timer(struct rl_lease *lease, int64_t now_ms);

/* Begins the renewals whose turn it is. */
void watchdog_go_on(struct core *core, int64_t now_ms);

/* Makes an extension without beginning it; without a reference. NULL: out of memory. */
struct rl_round *watchdog_extension(struct rl_lease *lease, int64_t lease_ms);

/* Nobody has a handle of the held lease now: its keys expire, unless the client closes
 * first and releases them. */
void watchdog_orphan(struct rl_lease *lease);

/* Whether the lease is lost and its name must stay closed for the lock delay, even if the
 * holder releases it now. */
int watchdog_delays(struct rl_lease *lease, int64_t now_ms);

/* A server's clock stepped forward and may have expired our keys: renews kept leases now,
 * which restores them, and asks for the others. lost_ms: a majority stepped by at least
 * that, so all leases end that much earlier; 0: fewer servers stepped. */
void watchdog_hurry(struct core *core, int64_t lost_ms, int64_t now_ms);

/* Marks the lease as lost for this reason, unless it is lost already. */
void watchdog_lose(struct rl_lease *lease, enum rl_loss reason);

#endif
