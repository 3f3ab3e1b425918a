/* watchdog.h - holds: extended, renewed in time, and lost. */
#ifndef WATCHDOG_H
#define WATCHDOG_H

#include "core/leases/lease.h"

/* As rl_keep() and rl_lease_lost(). */
void watchdog_start(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms,
                    int64_t now_ms);
int watchdog_lost_why(rl_lease *lease, int64_t now_ms);

/* The lease is held from now on, until then. */
void watchdog_hold(struct rl_lease *lease, int64_t deadline_ms, int64_t now_ms);

/* Sets the timer of a held lease. */
void watchdog_schedule(struct rl_lease *lease);
void watchdog_on_timer(struct rl_lease *lease, int64_t now_ms);

/* Begins the renewals whose turn it is. */
void watchdog_go_on(struct core *core, int64_t now_ms);

/* An extension that has not begun, without a reference. NULL: out of memory. */
struct rl_round *watchdog_extension(struct rl_lease *lease, int64_t lease_ms);

/* Nobody can release the held lease any more: its keys end with their time, or are
 * released when the client is closed before. */
void watchdog_orphan(struct rl_lease *lease);

/* Whether the holder has lost the lease, and the name is to stay closed for the lock
 * delay, whatever the holder does now. */
int watchdog_delays(struct rl_lease *lease, int64_t now_ms);

/* A server's clock was stepped forward, and may have freed keys of ours: kept leases are
 * renewed now, which puts them back. lost_ms: on a majority by so much at least, so all
 * leases end so much earlier; 0: on fewer. */
void watchdog_hurry(struct core *core, int64_t lost_ms, int64_t now_ms);

/* The lease is lost, for the reason given, unless it was lost before. */
void watchdog_lose(struct rl_lease *lease, enum rl_loss reason);

#endif
