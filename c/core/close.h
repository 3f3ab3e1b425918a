/* close.h - how a core ends. */
#ifndef CLOSE_H
#define CLOSE_H

#include "core/state.h"

/* Ends all rounds and lets go what is held: the releases are on their way from now on,
 * and go on until close_finish(). Nothing can be started any more. */
void close_begin(struct core *core, int64_t now_ms);

/* The nodes that may have keys of leases that were let go since then, and have not
 * confirmed the release, a bit each. */
uint32_t close_unreleased(const struct core *core, int64_t since_ms);

/* The connected nodes that have not answered requests sent since then, a bit each: what
 * was exported, or stays closed, has perhaps not got there yet. */
uint32_t close_unanswered(const struct core *core, int64_t since_ms);

/* Ends all rounds and voids all leases; releases that could be queued are in core_out().
 * Nothing can be started any more. */
void close_finish(struct core *core, int64_t now_ms);

/* Forgets connections, rounds (RL_CLOSED) and leases (void) without writing anything,
 * for the child of a fork; new ones can be started. */
void close_void(struct core *core);

/* Frees everything; the caller has no rounds and leases any more. */
void close_free(struct core *core);

#endif
