/* close.h - how a core ends. */
#ifndef CLOSE_H
#define CLOSE_H

#include "core/base/state.h"

/* Ends all rounds and begins to release what is held, which lasts until close_finish().
 * Nothing can be started any more. */
void close_begin(struct core *core, int64_t now_ms);

/* The nodes, a bit each, that may have keys of leases whose release began since then, and
 * have not confirmed it. */
uint32_t close_unreleased(const struct core *core, int64_t since_ms);

/* The connected nodes, a bit each, that have not answered requests sent since then: an
 * exported lock, or a name kept closed, may not have reached them. */
uint32_t close_unanswered(const struct core *core, int64_t since_ms);

/* Ends all rounds and voids all leases; releases that could be queued are in core_out().
 * Nothing can be started any more. */
void close_finish(struct core *core, int64_t now_ms);

/* Forgets connections, rounds (RL_CLOSED) and leases (void) without writing anything,
 * for the child of a fork, which can start new ones. */
void close_void(struct core *core);

/* Frees everything; the caller must have no rounds and leases left. */
void close_free(struct core *core);

#endif
