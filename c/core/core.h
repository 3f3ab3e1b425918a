/* core.h - rounds, leases and timers over a virtual "now". Pure: no clock, no I/O.
 *
 * The driver (the engine, or a simulator) moves bytes between core_out() and
 * core_feed(), says when connections come and go, and calls core_tick() at
 * core_due_ms(). What the core wants from the driver is in three masks, a bit per link:
 * link i is the connection to node i, link n + i the connection that takes messages from
 * node i.
 */
#ifndef CORE_H
#define CORE_H

#include "core/state.h"

/* Nodes are configured by configs[0..n-1], which must outlive the core. 0, or -1: out of
 * memory. seed: any number. */
int core_init(struct core *core, const struct node_config *configs, int n,
              int32_t drift_ppm, uint64_t seed);

/* As rl_script(). */
int core_script(struct core *core, const char *body, size_t len, int64_t now_ms);

/* ---- what the driver tells ---- */

void core_connected(struct core *core, int i, int64_t now_ms);

/* What a connection that is being made waits for, in the words of its time-out. tries: how
 * many addresses are left to try, with this one, which has its share of the time; after that
 * the core wants the connection again (want_connect), by the next one. */
void core_waits_for(struct core *core, int i, const char *text, int tries, int64_t now_ms);

/* Node i has other credentials: the next attempt to connect waits no longer. */
void core_retry(struct core *core, int i, int64_t now_ms);

/* The connection broke or could not be made. code: RL_REFUSED, RL_TIMEOUT, RL_DNS... */
void core_lost(struct core *core, int i, int code, const char *text, int64_t now_ms);

void core_feed(struct core *core, int i, const char *data, size_t len, int64_t now_ms);

/* What is to be written to node i; the driver takes from it what was written. */
struct buf *core_out(struct core *core, int i);

/* True while something is under way that nobody waits for: a renewal, a clean-up that
 * waits for a connection, bytes that are not written yet. */
int core_busy(const struct core *core);

/* True while a node that is not connected has not confirmed a release. */
int core_owes_away(const struct core *core);

/* True while a node was asked for its time and has not answered: such an answer is worth
 * something only when read at once. */
int core_timing(const struct core *core);

/* When core_tick() is due; INT64_MAX: when something arrives. */
int64_t core_due_ms(const struct core *core);
void core_tick(struct core *core, int64_t now_ms);

#endif
