/* release.h - a lease is let go, and cleaned up after until every server has confirmed
 * it, or the keys are gone anyway.
 */
#ifndef RELEASE_H
#define RELEASE_H

#include "core/leases/lease.h"

/* Of the rounds that are made with each lease. */
extern const struct round_kind release_kind;

/* Ends the lease, whatever its state, and begins the release. */
void release_end(struct rl_lease *lease, int64_t now_ms);

/* Gives up a held lease without a release: the keys end with their time. The release,
 * which is not sent, has this outcome. */
void release_leave(struct rl_lease *lease, int outcome);

/* Into the owing list: what may be left of an ended lease is released a little later. */
void release_owe(struct rl_lease *lease, int64_t now_ms);

/* Sends the release owed to node i, which is ready. */
void release_pay(struct rl_lease *lease, int i, int64_t now_ms);

/* Node i is ready again. If it was given up in silence it has yet to execute what it was
 * sent before: where a write of ours is among that, one release behind it does, instead of
 * one at once and one behind it. There may be hundreds. */
void release_pay_all(struct core *core, int i, int silent, int64_t now_ms);

/* Node i was refused, as it is the same server as node twin (-1: as something else): what is
 * owed to i is paid through twin. */
void release_by_twin(struct core *core, int i, int twin, int64_t now_ms);

/* The timer of a lease in the owing list. */
void release_on_timer(struct rl_lease *lease, int64_t now_ms);

#endif
