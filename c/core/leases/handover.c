/* handover.c - a held lease passes to another holder of the same process: a new value
 * takes the place of the old one on the servers, in one round.
 *
 * Why it is safe. The script replaces the old value and nothing else: a node that says
 * yes had our key up to that moment and has it from then on, for the new lease, so a
 * majority of yes is a majority that nobody else can have had in between. The script
 * never takes a key that is free, so a node that forgot has no vote. The old lease is
 * over before the first byte is written, and never valid again, whatever the outcome.
 *
 * Fencing tokens. For them a hand-over is an acquire: a new value, and on every node
 * that takes the value the counter goes up by one in the same step, with the floor, the
 * key last. The argument in fence.c asks no more of a grant; it does not ask that the
 * key was free before. So the token is issued by the rule of an acquire, when a majority
 * has witnessed exactly that token, with confirmations where counters differ. The token
 * is larger than the one before, which a majority had witnessed before this round began:
 * the two majorities have a node in common.
 * The token of the old lease is not sent along: until its own is issued, what the next
 * lease sends leaves counters alone. Grants of a hand-over that fails only make a gap.
 *
 * Nothing is left behind. Each of the two leases cleans up after its own value, as
 * lease.c does for every lease. When the round fails, both are released everywhere, the
 * old value first: a straggling replacement then either finds nothing to replace or is
 * undone by the second release. When the round is won, a node that answered has the old
 * value no more, and the others get the release of the old value a little later; on the
 * one ordered connection that release comes behind the replacement, and leaves it alone.
 */
#include "core/leases/handover.h"

#include "core/leases/acquire.h"
#include "core/leases/fence.h"
#include "core/leases/release.h"
#include "core/leases/vote.h"

/* Ends an attempt before its first byte. */
static struct rl_round *refused(struct rl_lease *next, struct rl_round *round, int code)
{
    next->state = LEASE_OVER;
    next->release->outcome = RL_NOT_HELD;
    round->outcome = code;
    return round;
}

/* Out of the held list, valid no more, its keys still there. */
static void give_up(struct rl_lease *old)
{
    old->deadline_ms = 0;
    lease_forget(old);
    old->state = LEASE_PASSED;
    if (old->before) {       /* whose clean-up goes on by itself */
        lease_unref(old->before);
        old->before = NULL;
    }
}

/* ---- a round's hooks ---- */

static int handover_read(struct rl_round *round, int i, const struct reply *reply,
                         struct vote *vote)
{
    int code = vote_of_lease(round, i, reply, vote);
    return code ? code : acquire_granted(round, i, vote);
}

static int handover_answered(struct rl_round *round, int i, int code,
                             const struct vote *vote, int64_t now_ms)
{
    (void)now_ms;
    struct rl_lease *lease = round->lease, *old = lease->before;
    if (!code && vote->vote != RL_VOTE_YES)
        lease_refused(lease, i);
    /* Whatever node i says, the value that was to be replaced is not there any more. */
    if (!code && old && !(old->torn & bit(i)))
        lease_untouched(old, i);
    return code;
}

static int handover_outcome(struct rl_lease *lease, const struct rl_round *round,
                            enum verdict verdict, int64_t now_ms)
{
    struct rl_lease *old = lease->before;
    if (verdict != WON) {
        lease->acquire = NULL;
        return quorum_disowned(&round->tally) ? RL_LOST : RL_NO_QUORUM;
    }
    int outcome = acquire_won(lease, round, now_ms);
    if (outcome != RL_GRANTED || old->state != LEASE_PASSED)
        return outcome;
    old->state = LEASE_OVER;
    old->release->outcome = RL_NOT_HELD;
    if (old->touched)
        release_owe(old, now_ms);
    return outcome;
}

static void handover_decide(struct rl_round *round, int64_t now_ms)
{
    acquire_decide_as(round, handover_outcome, now_ms);
}

static const struct round_kind handover_kind = {
    .name = "handover",
    .margin = 1,
    .expired = RL_EXPIRED,
    .used = lease_used,
    .unused = lease_unused,
    .put = fence_put,
    .sent = lease_sent_value,
    .read = handover_read,
    .answered = handover_answered,
    .late = acquire_late,
    .unknown = lease_unknown,
    .torn = acquire_torn,
    .decide = handover_decide,
    .ended = fence_end,
};

/* ---- beginning ---- */

static struct rl_round *passing_round(struct rl_lease *old, struct rl_lease *next)
{
    struct core *core = old->core;
    struct cmd *cmd = cmd_with_old(&core->cmds, next->cmd, cmd_value(old->cmd));
    return cmd ? round_new(core, &handover_kind, next->primitive.handover, next, cmd)
               : NULL;
}

rl_round *handover_begin(rl_lease *old, const rl_primitive *kind, rl_bytes value,
                         int64_t lease_ms, int64_t now_ms, rl_lease **out)
{
    struct core *core = old->core;
    const rl_primitive *primitive = kind ? kind : &old->primitive;
    struct rl_lease *next = lease_like(old, primitive, value, lease_ms);
    struct rl_round *round = next ? passing_round(old, next) : NULL;
    if (!round) {
        if (next)
            lease_recycle(next);
        return NULL;
    }
    *out = next;
    next->refs++;
    core->handles += 2;
    round_ref(round);
    if (primitive->handover < 0 || primitive->rule != old->primitive.rule)
        return refused(next, round, RL_UNSUPPORTED);
    if (old->epoch != core->epoch || old->state != LEASE_HELD)
        return refused(next, round, core->closed ? RL_CLOSED : RL_NOT_HELD);
    if (now_ms >= old->deadline_ms) {
        release_end(old, now_ms);
        return refused(next, round, RL_LOST);
    }
    round->lease_ms = lease_ms;
    round->cap_ms = old->deadline_ms;
    next->acquire = round;
    next->before = old;
    old->refs++;
    give_up(old);
    round_begin(round, now_ms);
    return round;
}
