/* vote.h - what the reply of a node to one of our scripts is worth. */
#ifndef VOTE_H
#define VOTE_H

#include "core/round.h"

/* What the reply is worth: a vote (0), or why it is none (rl_code). */
int vote_read(struct rl_round *round, int i, const struct reply *reply, int *vote);

/* What it says beside its vote: the counter of a grant, ms, how many were told; or 0. */
int64_t vote_extra(const struct rl_round *round, const struct reply *reply);

/* Keeps for the node's text why its reply was no vote. */
void vote_explain(struct rl_round *round, int i, int code, const struct reply *reply);

#endif
