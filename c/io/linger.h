/* linger.h - the last moments of a client. */
#ifndef LINGER_H
#define LINGER_H

#include "io/net.h"

enum { LINGER_MS = 50 };     /* so long after it was begun an answer is waited for */

/* After close_begin(), with the loop to itself: waits until the releases are confirmed by
 * all servers that are not down, and what else was asked is answered, or until then, or
 * LINGER_MS from their begin on. */
void linger_until(struct net *net, int64_t until_ms);

#endif
