/* vote.c - what the reply of a node to one of our scripts is worth. */
#include "core/vote.h"

#include <stdio.h>

#include "core/fence.h"

/* A fenced acquire that was granted may say so in one number, above all other votes. */
static int is_count(const struct rl_round *round, const struct reply *reply)
{
    return round->kind == ROUND_ACQUIRE && lease_fenced(round->lease) &&
           reply->nums == 1 && reply->num[0] > RL_VOTE_GUARDED;
}

int64_t vote_extra(const struct rl_round *round, const struct reply *reply)
{
    if (is_count(round, reply))
        return reply->num[0] - RL_VOTE_GUARDED;
    return reply->nums > 1 ? reply->num[1] : 0;
}

/* A vote that comes with a counter: a grant, and a confirmation that is refused for it. */
static int counts(const struct rl_round *round, int vote)
{
    return round->kind == ROUND_CONFIRM ? vote == RL_VOTE_ABSENT
                                        : round_begins(round) && vote == RL_VOTE_YES &&
                                              lease_fenced(round->lease);
}

/* Two nodes may be one server under two addresses, unless both are ready and have said
 * who they are: guard_up() compares them. */
static int may_be_one(const struct node *a, const struct node *b)
{
    return a->state != NODE_READY || b->state != NODE_READY || !a->info.run_id[0] ||
           !b->info.run_id[0];
}

/* A value that was there when a node was asked again is its own, or came through another
 * address of its server, which has voted: one may be ready while the other is not. */
static int may_have_voted(const struct rl_round *round, int i)
{
    const struct node *nodes = round->core->nodes;
    for (int k = 0; k < round->core->n; k++) {
        const struct slot *other = &round->slot[k];
        int again = other->again || round->slot[i].again;
        if (k != i && other->vote >= RL_VOTE_YES && again &&
            may_be_one(&nodes[i], &nodes[k]))
            return 1;
    }
    return 0;
}

int vote_read(struct rl_round *round, int i, const struct reply *reply, int *vote)
{
    struct slot *slot = &round->slot[i];
    if (reply->type == REPLY_ERROR)
        return wire_error_code(reply->text);
    if (round->kind == ROUND_PROBE)
        return RL_OK;
    if ((reply->type != REPLY_INTEGER && reply->type != REPLY_ARRAY) || !reply->nums)
        return RL_PROTOCOL;
    if (is_count(round, reply)) {
        *vote = RL_VOTE_YES;
        return !fence_is_token(vote_extra(round, reply)) ? RL_PROTOCOL
               : may_have_voted(round, i)         ? RL_TIMEOUT
                                                  : RL_OK;
    }
    if (reply->num[0] < INT32_MIN || reply->num[0] > INT32_MAX)
        return RL_PROTOCOL;
    *vote = (int)reply->num[0];
    if (round->kind == ROUND_ASK || round->kind == ROUND_ASK_ALL)
        return RL_OK;
    if (*vote == RL_VOTE_GUARDED && round->kind == ROUND_ACQUIRE && round->core->marker)
        return RL_GUARDED;
    if (*vote == RL_VOTE_UNSEEDED && lease_fenced(round->lease))
        return RL_UNSEEDED;
    if (*vote < RL_VOTE_FOREIGN || *vote > RL_VOTE_AGAIN)
        return RL_PROTOCOL;
    if (round_begins(round) && *vote == RL_VOTE_AGAIN) {
        if (!slot->resends)
            return RL_CONFIG;    /* asked once, so another address is the same server */
        slot->again = 1;
        *vote = RL_VOTE_YES;
    }
    if (counts(round, *vote) && !fence_is_token(vote_extra(round, reply)))
        return RL_PROTOCOL;
    if (round_begins(round) && *vote == RL_VOTE_YES && may_have_voted(round, i))
        return RL_TIMEOUT;       /* its first answer is lost, and this one is not sure */
    /* The first release may have been executed although its answer was lost, and somebody
     * else may have it since. */
    if (round->kind == ROUND_RELEASE && *vote <= RL_VOTE_ABSENT && slot->resends)
        *vote = RL_VOTE_YES;
    return RL_OK;
}

void vote_explain(struct rl_round *round, int i, int code, const struct reply *reply)
{
    struct node *nd = &round->core->nodes[i];
    int counts = round->lease && lease_fenced(round->lease) && reply->nums;
    const char *text = code == RL_CONFIG     ? "the same server under two addresses"
                       : code == RL_UNSEEDED ? "it does not know what it has counted"
                       : code == RL_PROTOCOL
                           ? counts ? "a script's reply has a vote or a counter that cannot be"
                                    : "a script's reply has no vote"
                       : code == RL_TIMEOUT  ? "it may be a server that has voted already"
                                             : reply->text;
    snprintf(nd->text, sizeof(nd->text), "%.*s", RL_TEXT_MAX - 1, text);
}
