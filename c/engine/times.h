/* times.h - how long the rounds of a client take, for those who want to know. */
#ifndef TIMES_H
#define TIMES_H

#include "core/rounds/round.h"
#include "engine/client.h"

/* With the mutex: a caller has begun a round. */
void times_begin(struct rl_client *c, struct rl_round *round);

/* With the mutex: the caller gives it back. */
void times_end(struct rl_client *c, const struct rl_round *round);

#endif
