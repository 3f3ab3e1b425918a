#include "core/leases/vote.h"

#include "core/rounds/query.h"

#include <stdio.h>

int vote_of_lease(struct rl_round *round, int i, const struct reply *reply,
                  struct vote *vote)
{
    int code = query_number(round, i, reply, vote);
    if (code)
        return code;
    if (vote->vote == RL_VOTE_UNSEEDED && lease_fenced(round->lease))
        return RL_UNSEEDED;
    return vote->vote < RL_VOTE_FOREIGN || vote->vote > RL_VOTE_AGAIN ? RL_PROTOCOL : RL_OK;
}

void vote_explain(struct rl_round *round, int i, int code, const struct reply *reply)
{
    struct node *nd = &round->core->nodes[i];
    int counts = round->lease && lease_fenced(round->lease) && reply->nums;
    const char *text = code == RL_CONFIG     ? "the same server under two addresses"
                       : code == RL_UNSEEDED ? "it does not know which tokens it has issued"
                       : code == RL_PROTOCOL
                           ? counts ? "a script's reply has a vote or a counter that cannot be"
                                    : "a script's reply has no vote"
                       : code == RL_TIMEOUT  ? "it may be a server that has voted already"
                       : code == RL_NOT_A_LOCK ? reply->text + sizeof("NOTALOCK")
                                             : reply->text;
    snprintf(nd->text, sizeof(nd->text), "%.*s", RL_TEXT_MAX - 1, text);
}
