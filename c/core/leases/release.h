/* release.h - releases a lease, until every server has confirmed that or the keys have
 * expired.
 */
#ifndef RELEASE_H
#define RELEASE_H

#include "core/leases/lease.h"

/* The kind of the release round that each lease has. */
extern const struct round_kind release_kind;

/* Ends the lease, whatever its state, and begins the release. With a lock delay an export
 * that nobody got is only left. */
void release_end(struct rl_lease *lease, int64_t now_ms);

/* Gives up a lease without sending a release: its keys expire. The release gets this
 * outcome. */
void release_leave(struct rl_lease *lease, int outcome);

/* Node i is ready again. silent: it was given up because it did not answer, and may still
 * execute earlier requests. If a write of ours is among them it is sent one release, not
 * a second one at once: hundreds of leases may be owed. */
void release_pay_all(struct core *core, int i, int silent, int64_t now_ms);

/* Node i was refused as the same server as node twin: sends the releases owed to i
 * through twin. -1: refused for another reason. */
void release_by_twin(struct core *core, int i, int twin, int64_t now_ms);

/* Called when the timer of a lease in the owing list fires. */
void release_on_timer(struct rl_lease *lease, int64_t now_ms);

#endif
