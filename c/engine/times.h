/* times.h - how long the rounds of a client take, once rl_get_times() was called. */
#ifndef TIMES_H
#define TIMES_H

#include "core/rounds/round.h"
#include "engine/client.h"

/* With the mutex, when a caller has begun a round. */
void times_begin(struct rl_client *c, struct rl_round *round);

/* With the mutex, before the caller's handle is freed. */
void times_end(struct rl_client *c, const struct rl_round *round);

#endif
