/* linger.h - waits for answers before a client closes. */
#ifndef LINGER_H
#define LINGER_H

#include "io/net.h"

/* Whether a server that is not down has yet to confirm a release or to answer a request,
 * of the last RL_LINGER_MS, and may still do so before until_ms. */
int linger_awaits(const struct net *net, int64_t now_ms, int64_t until_ms);

/* After close_begin(), when no other thread turns the loop: waits until all servers that
 * are not down have confirmed the releases and answered all other requests, or until
 * until_ms; for each release or request RL_LINGER_MS at most. */
void linger_until(struct net *net, int64_t until_ms);

#endif
