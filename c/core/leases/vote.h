/* vote.h - what the reply of a node to one of our scripts is worth. */
#ifndef VOTE_H
#define VOTE_H

#include "core/leases/lease.h"

/* A hook for round_kind.read: the reply of a lease's script; those to acquires have
 * more forms. */
int vote_of_lease(struct rl_round *round, int i, const struct reply *reply,
                  struct vote *vote);

/* Puts into the node's text why its reply was no vote. */
void vote_explain(struct rl_round *round, int i, int code, const struct reply *reply);

#endif
