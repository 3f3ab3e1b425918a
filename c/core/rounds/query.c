#include "core/rounds/query.h"

#include "core/eligibility/guard.h"
#include "core/eligibility/eligibility.h"
#include "node/questions.h"

int query_number(struct rl_round *round, int i, const struct reply *reply,
                 struct vote *vote)
{
    (void)round, (void)i;
    if ((reply->type != REPLY_INTEGER && reply->type != REPLY_ARRAY) || !reply->nums ||
        reply->num[0] <= RL_SHOWN || reply->num[0] > INT32_MAX)
        return RL_PROTOCOL;
    vote->vote = (int)reply->num[0];
    vote->extra = reply->nums > 1 ? reply->num[1] : 0;
    return RL_OK;
}

int query_vote(struct rl_round *round, int i, const struct reply *reply, struct vote *vote)
{
    int code = query_number(round, i, reply, vote);
    if (code)
        return code;
    if (vote->vote == RL_VOTE_GUARDED && round->kind->guarded && round->core->marker)
        return RL_GUARDED;
    return vote->vote < RL_VOTE_FOREIGN || vote->vote > RL_VOTE_AGAIN ? RL_PROTOCOL : RL_OK;
}

/* ---- a question, until a majority agrees ---- */

/* WON when a majority has the same vote and data. */
static enum verdict agreement(struct rl_round *round)
{
    const struct core *core = round->core;
    uint32_t pending = NODES_WHERE(core, i, round->slot[i].state < SLOT_ANSWERED);
    int may_be = 0;
    for (int i = 0; i < core->n; i++) {
        uint32_t group = round_alike(round, i);
        may_be |= state_majority(core, group | pending);
        if (state_majority(core, group)) {
            round->agreed = group;
            return WON;
        }
    }
    if (may_be)
        return UNDECIDED;
    /* No majority can agree. The outcome needs to know if a majority answered. */
    return quorum_answered(&round->tally) || quorum_missing(&round->tally) ? LOST : UNDECIDED;
}

static void ask_decide(struct rl_round *round, int64_t now_ms)
{
    (void)now_ms;
    if (agreement(round) == UNDECIDED)
        return;
    int outcome = quorum_answered(&round->tally) ? RL_GRANTED : round_no_quorum(round);
    if (outcome)
        round_end(round, outcome);
}

static int ask_put(struct rl_round *round, int i, int64_t now_ms)
{
    return round_call(round, i, guard_arg(round->core, i, 0, 1), now_ms);
}

static const struct round_kind ask_kind = {
    .shown = 1,
    .put = ask_put,
    .read = query_number,
    .decide = ask_decide,
};

/* ---- a question for nodes that may vote ---- */

static int guarded_put(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    int objection = eligibility_check(core, i, 1, now_ms);
    return objection ? objection : round_call(round, i, guard_arg(core, i, 0, 1), now_ms);
}

static int guarded_answered(struct rl_round *round, int i, int code,
                            const struct vote *vote, int64_t now_ms)
{
    (void)vote;
    return code ? code : guard_passed(round->core, i, now_ms);
}

static const struct round_kind guarded_kind = {
    .guarded = 1,
    .put = guarded_put,
    .read = query_vote,
    .answered = guarded_answered,
    .decide = ask_decide,
};

/* ---- until each node has answered ---- */

static void all_decide(struct rl_round *round, int64_t now_ms)
{
    (void)now_ms;
    if (!round->tally.pending)
        round_end(round, RL_GRANTED);
}

static const struct round_kind ask_all_kind = {
    .read = query_number,
    .decide = all_decide,
};

/* ---- one node alone ---- */

static const struct round_kind ask_one_kind = {
    .alone = 1,
    .read = query_number,
};

/* The list of a node's connections; scripts may not call CLIENT LIST. */
static int clients_put(struct rl_round *round, int i, int64_t now_ms)
{
    const char *words[] = {"CLIENT", "LIST", "TYPE", "normal"};
    struct node *nd = &round->core->nodes[i];
    int failed = node_request(nd, REQUEST_CALL, 4, words, round, now_ms);
    nd->stats.requests += !failed;
    return failed;
}

static int clients_read(struct rl_round *round, int i, const struct reply *reply,
                        struct vote *vote)
{
    (void)round, (void)i, (void)vote;
    return reply->type == REPLY_STRING ? RL_OK : RL_PROTOCOL;
}

static const struct round_kind clients_kind = {
    .alone = 1,
    .put = clients_put,
    .read = clients_read,
};

/* Asks every node about itself; struct node keeps the answers. */
static int probe_put(struct rl_round *round, int i, int64_t now_ms)
{
    return node_probe(&round->core->nodes[i], round, now_ms);
}

static const struct round_kind probe_kind = {
    .put = probe_put,
    .decide = all_decide,
};

/* ---- beginning ---- */

/* Ends at until_ms at the latest. Takes over cmd. only: the node to ask; -1: all. */
static rl_round *begin(struct core *core, const struct round_kind *kind, int script,
                       struct cmd *cmd, int only, int64_t until_ms, int64_t now_ms)
{
    struct rl_round *round = round_new(core, kind, script, NULL, cmd);
    if (!round)
        return NULL;
    round->cap_ms = until_ms;
    round->gate = only;
    round_begin(round_handle(round), now_ms);
    return round;
}

static const struct round_kind *kind_of(int whom, int script)
{
    return whom == RL_ASK_MAJORITY    ? &ask_kind
           : whom == RL_ASK_VOTERS    ? &guarded_kind
           : whom == RL_ASK_EACH      ? &ask_all_kind
           : script == RL_CLIENT_LIST ? &clients_kind
                                      : &ask_one_kind;
}

rl_round *query_ask(struct core *core, int whom, int script, const rl_bytes *keys, int nkeys,
                    const rl_bytes *args, int nargs, int64_t within_ms, int64_t now_ms)
{
    int known = script >= (whom < 0 ? 0 : RL_CLIENT_LIST) && script < core->scripts.count;
    if (core->closed || !known || whom < RL_ASK_EACH || whom >= core->n)
        return NULL;
    struct cmd *cmd = cmd_new(&core->cmds, keys, nkeys, args, nargs);
    return cmd ? begin(core, kind_of(whom, script), script, cmd, whom < 0 ? -1 : whom,
                       now_ms + within_ms, now_ms)
               : NULL;
}

rl_round *query_probe(struct core *core, int64_t now_ms)
{
    return core->closed ? NULL : begin(core, &probe_kind, -1, NULL, -1, INT64_MAX, now_ms);
}
