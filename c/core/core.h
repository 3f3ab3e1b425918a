/* core.h - rounds, leases and timers over a virtual "now". Pure: no clock, no I/O, no
 * threads, no Lua.
 *
 * The driver (the engine, or a simulator) moves bytes between core_out() and core_feed(),
 * reports when connections come and go, and calls core_tick() at core_due_ms(). The core
 * tells what it wants in three masks, a bit per link: link i is the connection to node i,
 * link n + i the one that takes messages from node i.
 */
#ifndef CORE_H
#define CORE_H

#include "core/base/state.h"

/* configs[0..n-1] configure the nodes, and must outlive the core. seed: any number. 0, or
 * -1: out of memory. */
int core_init(struct core *core, const struct node_config *configs, int n,
              int32_t drift_ppm, uint64_t seed);

/* See rl_script(). */
int core_script(struct core *core, const char *body, size_t len, int64_t now_ms);

/* ---- for the driver ---- */

void core_connected(struct core *core, int i, int64_t now_ms);

/* A connection is being made. text: the error if it times out; tries: the addresses left to try,
 * this one included. It gets its share of the time; then the core sets want_connect again, for
 * the next address. */
void core_waits_for(struct core *core, int i, const char *text, int tries, int64_t now_ms);

/* Call when node i has other credentials: ends the back-off of its connections. */
void core_retry(struct core *core, int i, int64_t now_ms);

/* The connection broke or could not be made. code: RL_REFUSED, RL_TIMEOUT, RL_DNS... */
void core_lost(struct core *core, int i, int code, const char *text, int64_t now_ms);

void core_feed(struct core *core, int i, const char *data, size_t len, int64_t now_ms);

/* The bytes to write to node i; the driver takes out what it has written. */
struct buf *core_out(struct core *core, int i);

/* True if there is work that no caller waits for: a renewal, a clean-up that waits for
 * a connection, bytes not written yet, late replies that may show strays (acquire.c). */
int core_busy(const struct core *core);

/* True while busy, or while any answer is missing. */
int core_unread(const struct core *core);

/* True while a node that is not connected has not confirmed a release. */
int core_owes_away(const struct core *core);

/* True while an answer to TIME is missing: it is of use only when read at once. */
int core_timing(const struct core *core);

/* When core_tick() is due; INT64_MAX: when something arrives. */
int64_t core_due_ms(const struct core *core);
void core_tick(struct core *core, int64_t now_ms);

#endif
