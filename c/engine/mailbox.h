/* mailbox.h - inside the engine: brings rounds that are done to an event loop. redlock.h
 * has the public half.
 *
 * Order of locking: a client's mutex, the list of mailboxes, a mailbox.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <pthread.h>

#include "core/rounds/round.h"

/* Adds a round that is done; with the mutex of its client. True: call rl_mailbox_ring(),
 * best after that mutex is free, as the loop that it wakes will want it. */
int mailbox_push(struct rl_mailbox *m, struct rl_round *round);

/* Takes a round out of the mailbox, before its handle is freed. */
void mailbox_remove(struct rl_mailbox *m, struct rl_round *round);

/* Wakes all event loops, for news that is not about a round. */
void mailbox_ring_all(void);

void mailbox_before_fork(void);
void mailbox_after_fork(int in_child);

#endif
