/* fence.c - why fencing tokens only grow.
 *
 * Each node counts the grants of a name. A token M may be issued when a majority
 * witnesses exactly M: nodes that granted with counter M, and nodes that granted with a
 * lower one and confirmed M (the key was still ours, the counter was not above M, and is M
 * now). Any two tokens have a node in common that witnessed first one, then the other; so they
 * differ, and the later one is larger. This depends on no clock.
 *
 * Counters mostly move in lockstep, and one round trip is enough. A release raises the
 * counters that may be below the token; no token depends on that.
 */
#include "core/leases/fence.h"

#include <assert.h>

#include "core/eligibility/guard.h"

/* Half a round trip in a data centre: if counters differ in the first majority, answers
 * still under way often complete one that agrees. The clock is no finer. */
enum { GRACE_MS = 1 };

/* The largest counter among the grants, and how many nodes have it. */
static int64_t largest(const struct rl_round *round, int *witnesses)
{
    int64_t most = 0;
    *witnesses = 0;
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        if (!round_is_yes(slot) || slot->extra < most)
            continue;
        *witnesses = (slot->extra == most ? *witnesses : 0) + 1;
        most = slot->extra;
    }
    return most;
}

/* ---- confirmations ---- */

static int confirm_read(struct rl_round *confirm, int i, const struct reply *reply,
                        struct vote *vote)
{
    int code = lease_vote(confirm, i, reply, vote);
    if (!code && vote->vote == RL_VOTE_ABSENT && !fence_is_token(vote->extra))
        return RL_PROTOCOL;      /* a refusal must come with its counter */
    return code;
}

static int confirm_answered(struct rl_round *confirm, int i, int code,
                            const struct vote *vote, int64_t now_ms)
{
    struct rl_round *round = confirm->lease->acquire;
    if (!round || round->slot[i].state != SLOT_CONFIRMING)
        return code;             /* late; else it is about the token asked last */
    struct slot *slot = &round->slot[i];
    if (code) {
        round_miss(round, i, code, now_ms);
        return code;
    }
    if (vote->vote == RL_VOTE_YES) {
        slot->extra = confirm->fence.token;
        round_count(round, i, SLOT_ANSWERED, &round->tally.yes);
    } else if (vote->vote == RL_VOTE_ABSENT && vote->extra > confirm->fence.token) {
        /* Still ours, but its counter is above the token: try a larger token. */
        if (vote->extra > round->fence.token)
            round->fence.token = vote->extra;
        slot->extra = 0;
        round_count(round, i, SLOT_ANSWERED, &round->tally.yes);
    } else {
        slot->vote = RL_VOTE_FOREIGN;
        slot->extra = -1;        /* unknown for how long */
        round_count(round, i, SLOT_ANSWERED, &round->tally.foreign);
    }
    round_decide(round, now_ms);
    return code;
}

static int confirm_unknown(struct rl_round *confirm, int i, int64_t now_ms)
{
    (void)i, (void)now_ms;
    return confirm->lease->acquire != NULL;
}

static void confirm_broken(struct rl_round *confirm, int i, int written, int64_t now_ms)
{
    (void)written;
    struct rl_round *round = confirm->lease->acquire;
    if (!round || round->slot[i].state != SLOT_CONFIRMING)
        return;
    round->slot[i].state = SLOT_WAITING;
    round->slot[i].deadline_ms = now_ms;     /* no vote: see core_lost() */
}

static const struct round_kind fence_confirm = {
    .used = lease_used,
    .unused = lease_unused,
    .put = fence_put,
    .sent = lease_sent,
    .read = confirm_read,
    .answered = confirm_answered,
    .unknown = confirm_unknown,
    .broken = confirm_broken,
};

/* ---- tokens ---- */

/* The round that asks nodes to confirm the token. NULL: out of memory. */
static struct rl_round *confirm_round(struct rl_round *round)
{
    struct core *core = round->core;
    struct rl_lease *lease = round->lease;
    if (round->fence.confirm && round->fence.confirm->fence.token == round->fence.token)
        return round->fence.confirm;
    fence_end(round);
    struct cmd *cmd = cmd_with_token(&core->cmds, lease->cmd, round->fence.token);
    struct rl_round *confirm =
        cmd ? round_new(core, &fence_confirm, lease->primitive.confirm, lease, cmd) : NULL;
    if (!confirm)
        return NULL;
    confirm->fence.token = round->fence.token;
    confirm->outcome = RL_GRANTED;           /* decided: its answers do not vote */
    round->fence.confirm = round_ref(confirm);
    return confirm;
}

void fence_end(struct rl_round *round)
{
    if (round->fence.confirm)
        round_unref(round->fence.confirm);
    round->fence.confirm = NULL;
}

/* Makes a grant below the token pending until the node confirms the token. */
static void ask_again(struct rl_round *round, int i, int64_t now_ms)
{
    struct slot *slot = &round->slot[i];
    round->tally.yes--;
    round->tally.pending++;
    slot->state = SLOT_CONFIRMING;
    slot->deadline_ms = round_answer_due_ms(round, i, now_ms);
    struct rl_round *confirm = confirm_round(round);
    if (confirm && round->core->nodes[i].state == NODE_READY)
        round_send(confirm, i, now_ms);
    if (!confirm || confirm->slot[i].state != SLOT_SENT) {
        const struct node *nd = &round->core->nodes[i];
        slot->code = (uint8_t)(!confirm ? RL_NOMEM
                               : nd->state != NODE_READY ? nd->code : RL_OVERLOAD);
        round_count(round, i, SLOT_MISSING, &round->tally.missing);
    } else {
        timer_hasten(&round->core->timers, &round->timer, slot->deadline_ms);
    }
}

enum verdict fence_judge(struct rl_round *round, int64_t now_ms)
{
    int witnesses;
    int64_t most = largest(round, &witnesses);
    if (!round->fence.token) {
        enum verdict v = quorum_vote(&round->tally);
        int witnessed = v == WON && witnesses >= quorum_with(round->tally.n, round->tally.margin);
        if (v == WON && !witnessed && round->tally.pending) {
            if (!round->fence.grace_ms)
                round->fence.grace_ms = now_ms + GRACE_MS;
            if (now_ms < round->fence.grace_ms) {
                round_decide_at(round, round->fence.grace_ms);
                return UNDECIDED;
            }
        }
        if (v != WON)
            return v;
        round->fence.token = most;
        if (witnessed)
            return WON;
    }
    if (most > round->fence.token)
        round->fence.token = most;
    for (int i = 0; i < round->core->n; i++) {
        if (round_is_yes(&round->slot[i]) && round->slot[i].extra < round->fence.token)
            ask_again(round, i, now_ms);
    }
    return quorum_vote(&round->tally);
}

void fence_counted(struct rl_lease *lease, int i, int64_t counter)
{
    if (lease->token && counter == lease->token)
        lease->counted |= bit(i);
}

void fence_issue(struct rl_lease *lease, const struct rl_round *round)
{
    lease_issue(lease, round->fence.token);
    for (int i = 0; i < lease->core->n; i++) {
        if (round_is_yes(&round->slot[i]))
            fence_counted(lease, i, round->slot[i].extra);
    }
}

/* ---- what is sent ---- */

int fence_put(struct rl_round *round, int i, int64_t now_ms)
{
    const char *last_arg =
        round->lease->primitive.knows_run ? guard_arg(round->core, i, 1, 0) : NULL;
    return round_call(round, i, last_arg, now_ms);
}

int fence_release(struct rl_round *release, int i, int64_t now_ms)
{
    struct core *core = release->core;
    struct rl_lease *lease = release->lease;
    if (!lease_fenced(lease) || (lease->token && !(lease->counted & bit(i))))
        return fence_put(release, i, now_ms);
    struct cmd *brief = cmd_brief(&core->cmds, release->cmd);    /* no counter to raise */
    if (!brief)
        return RL_NOMEM;
    int failed =
        node_call(&core->nodes[i], release->script, brief, NULL, release, now_ms);
    cmd_unref(&core->cmds, brief);
    return failed;
}
