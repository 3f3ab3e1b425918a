/* subscription.h - inside the core: waiting for messages on a channel of all nodes.
 *
 * A message is only a hint: a waiter that is woken tries again, and one that is not has a
 * timer. So nothing here is resent; confirmations show that a server is alive.
 */
#ifndef SUBSCRIPTION_H
#define SUBSCRIPTION_H

#include "core/rounds/round.h"

struct rl_subscription {
    struct core *core;
    struct rl_subscription *next; /* in the bucket */
    int refs;                     /* 0: some nodes must still be told to unsubscribe */
    uint32_t requested;           /* nodes that were asked to subscribe */
    uint32_t subscribed;          /* nodes that confirmed */
    uint32_t notices;             /* nodes that sent a message since the last wake-up */
    int doublings;                /* of the time for which messages are gathered */
    _Atomic int64_t wakes, opened;
    struct timer timer;           /* after the first notice */
    struct rl_round *sleepers;
    size_t len;
    char channel[WIRE_TEXT_MAX];
};

/* Tells subscriber i, which is ready, what is to be subscribed or no longer. */
void subscription_tell(struct core *core, int i, int64_t now_ms);

/* Subscriber i is disconnected. */
void subscription_lost(struct core *core, int i);

/* Handles a reply to subscriber i: a message, a confirmation, or an error. 0, or -1: the
 * server keeps sending messages without a subscription. */
int subscription_message(struct core *core, int i, const struct reply *reply,
                         int64_t now_ms);

/* The subscription's timer, after messages from too few nodes: ends all its pauses. */
void subscription_hint(struct rl_subscription *subscription);

/* See rl_subscribe(), rl_unsubscribe() and rl_sleep(). */
rl_subscription *subscription_open(struct core *core, const char *channel, size_t len,
                                   int64_t now_ms);
void subscription_close(rl_subscription *subscription, int64_t now_ms);
rl_round *subscription_pause(struct core *core, rl_subscription *subscription, int64_t seen,
                             int64_t ms, int64_t now_ms);

#endif
