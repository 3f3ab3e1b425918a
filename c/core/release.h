/* release.h - a lease is let go, and cleaned up after. */
#ifndef RELEASE_H
#define RELEASE_H

#include "core/lease.h"

/* As rl_release(). */
rl_round *release_begin(rl_lease *lease, int64_t now_ms);



/* Ends the lease, whatever its state, and begins the release. */
void release_end(struct rl_lease *lease, int64_t now_ms);

/* Whether its holder was lost, and the name is to stay closed behind him for the lock delay,
 * whatever he does now. */
int release_delays(struct rl_lease *lease, int64_t now_ms);

/* Gives up a held lease as it is: its keys end with their time. The outcome is that of its
 * release, which is not sent. */
void release_leave(struct rl_lease *lease, int outcome);

/* The release's verdict: its outcome. */
int release_outcome(struct rl_lease *lease, enum verdict verdict);

/* Into the owing list: what may be left of an ended lease is released a little later. */
void release_owe(struct rl_lease *lease, int64_t now_ms);

/* Node i said something to the release; answered: not an error. */
void release_answered(struct rl_lease *lease, int i, int answered, int64_t now_ms);

/* Sends the releases owed to node i, which is ready now. */
void release_pay(struct rl_lease *lease, int i, int64_t now_ms);
void release_on_timer(struct rl_lease *lease, int64_t now_ms);

#endif
