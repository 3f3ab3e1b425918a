/* handover.c - one round replaces the old lease's value on the servers by the new one's.
 *
 * Why it is safe. The script replaces the old value and nothing else: a node that says
 * yes had our key until then, and has it for the new lease from then on, so nobody else
 * can have had a majority in between. The script never takes a free key, so a node that
 * forgot has no vote. The old lease ends before we write the first byte, and is never
 * valid again, whatever the outcome.
 *
 * Fencing tokens. For them a hand-over is an acquire: each node that takes the new value
 * raises its counter by one in the same step, with the floor, the key last. The argument
 * in fence.c needs nothing more of a grant, and not that the key was free. So the token
 * follows the rule of an acquire: a majority must witness exactly it, with confirmations
 * where counters differ. It is larger than the old token, which a majority had witnessed
 * before this round began: the two majorities have a node in common.
 * The new lease does not send the old token: until its own is issued, what it sends
 * leaves counters alone. Grants of a failed hand-over only leave a gap.
 *
 * No key is left over. Each lease releases its own value (release.c). If the round fails,
 * both do so everywhere, the old one first: a late replacement then finds nothing to
 * replace, or the second release undoes it. If it is won, nodes that answered no longer
 * have the old value, and the others are sent its release a little later. It follows the
 * replacement on the same ordered connection, and does not touch the new value.
 */
#include "core/leases/handover.h"

#include "core/leases/acquire.h"
#include "core/leases/fence.h"
#include "core/leases/release.h"
#include "core/leases/vote.h"

/* Ends an attempt that has sent nothing. */
static struct rl_round *refused(struct rl_lease *next, struct rl_round *round, int code)
{
    next->state = LEASE_OVER;
    next->release->outcome = RL_NOT_HELD;
    round->outcome = code;
    return round;
}

/* Ends the validity of the old lease; its keys stay on the servers. */
static void give_up(struct rl_lease *old)
{
    old->deadline_ms = 0;
    lease_forget(old);
    old->state = LEASE_PASSED;
    if (old->before) {       /* it sends its own releases */
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
    /* Whatever its vote, node i no longer has the old value. */
    if (!code && old && !(old->broken & bit(i)))
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
    .broken = acquire_broken,
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
