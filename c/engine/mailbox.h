/* mailbox.h - inside the engine: brings rounds that are done to an event loop, and has that
 * turn the clients that it uses. redlock.h has the public half.
 *
 * Order of locking: a client's mutex, the list of mailboxes, a mailbox.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <pthread.h>

#include "core/rounds/round.h"

struct rl_client;

/* Adds a round that is done; with the mutex of its client. */
void mailbox_push(struct rl_mailbox *m, struct rl_round *round);

/* Takes a round out of the mailbox, before its handle is freed. */
void mailbox_remove(struct rl_mailbox *m, struct rl_round *round);

/* Whether a host has its bell rung: somebody takes what comes. */
int mailbox_is_heard(struct rl_mailbox *m);

/* Wakes all event loops, for news that is not about a round. */
void mailbox_ring_all(void);

/* With the mutex: has the loops that serve the client poll it. -1: none can. */
int mailbox_watch(struct rl_client *c);

/* With the mutex: whether the next take of this thread sends what was begun, as more may
 * come. */
int mailbox_gathers(const struct rl_client *c);

void mailbox_before_fork(void);
void mailbox_after_fork(int in_child);

#endif
