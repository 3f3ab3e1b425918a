/* answer.h - what a node's answer, or the end of its connection, means for a round. */
#ifndef ANSWER_H
#define ANSWER_H

#include "core/rounds/round.h"

/* Node i has answered. by_sha: the script was asked for by its sha. */
void answer_take(struct rl_round *round, int i, const struct reply *reply, int by_sha,
                 int64_t now_ms);

/* What node i was asked together with others it is to be asked alone, if that is wanted
 * still. */
void answer_alone(struct rl_round *round, int i, int64_t now_ms);

/* The connection broke before the answer: node i is asked again on the next one, once;
 * else the deadline of its vote is now. Ends no round: other requests are still on the
 * broken queue. */
void answer_torn(struct rl_round *round, int i, int written, int64_t now_ms);

#endif
