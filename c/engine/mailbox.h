/* mailbox.h - inside the engine: how rounds that are done get to an event loop. Contracts
 * of the public half are in redlock.h.
 *
 * Order of locking: a client's mutex, the list of mailboxes, a mailbox.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <pthread.h>

#include "core/rounds/round.h"

/* The round is done; with the mutex of its client. True: rl_mailbox_ring() is to be
 * called, best without that mutex, which the loop that hears the bell will want. */
int mailbox_push(struct rl_mailbox *m, struct rl_round *round);

/* The round's handle is given back: takes the round out of the mailbox. */
void mailbox_remove(struct rl_mailbox *m, struct rl_round *round);

/* Something else happened that event loops may want to look at. */
void mailbox_ring_all(void);

void mailbox_before_fork(void);
void mailbox_after_fork(int in_child);

#endif
