/* answer.h - what a node's answer, or the end of its connection, means for a round. */
#ifndef ANSWER_H
#define ANSWER_H

#include "core/rounds/round.h"

/* Node i has answered. by_sha: the request was an EVALSHA. */
void answer_take(struct rl_round *round, int i, const struct reply *reply, int by_sha,
                 int64_t now_ms);

/* Asks node i alone what it was asked in a batch, if the round still wants that. */
void answer_alone(struct rl_round *round, int i, int64_t now_ms);

/* The connection broke before the answer: asks node i once more on the next connection;
 * after a second break its vote is missing at once. Ends no round, as the broken queue has
 * other requests. */
void answer_broken(struct rl_round *round, int i, int written, int64_t now_ms);

#endif
