#include "core/leases/lease.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/rounds/query.h"

static struct rl_lease *from_pool(struct core *core)
{
    struct rl_lease *lease = core->lease_pool;
    if (lease)
        core->lease_pool = lease->next;
    else if (!(lease = state_alloc(core, sizeof(*lease))))
        return NULL;
    memset(lease, 0, sizeof(*lease));
    lease->core = core;
    lease->epoch = core->epoch;
    lease->timer.kind = TIMER_LEASE;
    return lease;
}

void lease_recycle(struct rl_lease *lease)
{
    struct core *core = lease->core;
    assert(!lease->list && !lease->timer.at && !lease->turn.at);
    if (lease->release)
        round_recycle(lease->release);
    if (lease->cmd)
        cmd_unref(&core->cmds, lease->cmd);
    if (lease->import)
        cmd_unref(&core->cmds, lease->import);
    free((char *)lease->taker.data);
    lease->next = core->lease_pool;
    core->lease_pool = lease;
}

void lease_unref(struct rl_lease *lease)
{
    assert(lease->refs > 0);
    if (--lease->refs == 0)
        lease_recycle(lease);
}

struct rl_lease *lease_new(struct core *core, const struct round_kind *release,
                           const rl_primitive *primitive, const rl_bytes *keys, int nkeys,
                           const rl_bytes *args, int nargs, rl_bytes value,
                           int64_t lease_ms)
{
    assert(value.len >= RL_VALUE_LEN && value.len <= RL_VALUE_MAX);
    struct rl_lease *lease = core->closed ? NULL : from_pool(core);
    if (!lease)
        return NULL;
    lease->primitive = *primitive;
    lease->confirmed_before = -1;
    lease->cmd = cmd_new_lease(&core->cmds, keys, nkeys, value,
                               lease_ttl_ms(core, lease_ms),
                               primitive->rule ? 0 : -1, args, nargs);
    if (lease->cmd)
        lease->release =
            round_new(core, release, primitive->release, lease, cmd_ref(lease->cmd));
    if (lease->release)
        return lease;
    lease_recycle(lease);
    return NULL;
}

void lease_issue(struct rl_lease *lease, int64_t token)
{
    struct core *core = lease->core;
    struct cmd *cmd = cmd_with_token(&core->cmds, lease->cmd, token);
    lease->token = token;
    if (!cmd)
        return;              /* scripts that see token 0 leave the counters alone */
    cmd_unref(&core->cmds, lease->cmd);
    cmd_unref(&core->cmds, lease->release->cmd);
    lease->cmd = cmd;
    lease->release->cmd = cmd_ref(cmd);
}

/* ---- the held and the owing list: each holds a reference ---- */

void lease_enlist(struct rl_lease **list, struct rl_lease *lease)
{
    lease->list = list;
    lease->core->owing_len += lease_owing(lease);
    lease->refs++;
    lease->prev = NULL;
    lease->next = *list;
    if (*list)
        (*list)->prev = lease;
    *list = lease;
}

void lease_forget(struct rl_lease *lease)
{
    if (lease->prev)
        lease->prev->next = lease->next;
    else
        *lease->list = lease->next;
    if (lease->next)
        lease->next->prev = lease->prev;
    lease->next = lease->prev = NULL;
    lease->core->owing_len -= lease_owing(lease);
    lease->list = NULL;
    lease_owes(lease, 0);
    lease_unkeep(lease);
    timer_clear(&lease->core->timers, &lease->timer);
    lease_unref(lease);
}

void lease_unkeep(struct rl_lease *lease)
{
    lease->keep_ms = 0;
    timer_clear(&lease->core->pace.waiting, &lease->turn);
}

void lease_owes(struct rl_lease *lease, uint32_t nodes)
{
    for (uint32_t other = lease->owed ^ nodes; other; other &= other - 1) {
        int i = __builtin_ctz(other);
        lease->core->nodes[i].stats.owed += nodes & bit(i) ? 1 : -1;
    }
    lease->owed = nodes;
}

void lease_paid(struct rl_lease *lease, int i)
{
    lease_owes(lease, lease->owed & ~bit(i));
    if (!lease->owed)
        lease_forget(lease);
}

void lease_untouched(struct rl_lease *lease, int i)
{
    if (lease->import && lease_owing(lease))
        return;                        /* it may have what was to be replaced */
    lease->touched &= ~bit(i);
    if (lease_owing(lease) && !(lease->releasing & bit(i)))
        lease_paid(lease, i);
}

/* ---- validity, and which nodes may have keys ---- */

int64_t lease_remaining_ms(const rl_lease *lease, int64_t now_ms)
{
    int64_t left_ms = lease->deadline_ms - now_ms;
    return left_ms > 0 && !lease_void(lease) ? left_ms : 0;
}

/* A server may have the lease's keys until then, by its clock, plus the lock delay. */
static void may_live(struct rl_lease *lease, int64_t until_ms)
{
    until_ms += lease->core->options.lock_delay_ms;
    if (until_ms > lease->gone_ms)
        lease->gone_ms = until_ms;
}

void lease_refused(struct rl_lease *lease, int i)
{
    if (!(lease->broken & bit(i)))
        lease_untouched(lease, i);
}

/* ---- hooks of its rounds ---- */

void lease_used(struct rl_round *round)
{
    round->lease->refs++;
}

void lease_unused(struct rl_round *round)
{
    struct rl_lease *lease = round->lease;
    if (round != lease->release)       /* which goes with the lease */
        round_recycle(round);
    lease_unref(lease);
}

int lease_vote(struct rl_round *round, int i, const struct reply *reply, struct vote *vote)
{
    int code = query_vote(round, i, reply, vote);
    if (vote->vote != RL_VOTE_UNSEEDED || !lease_fenced(round->lease))
        return code;
    round->lease->unseeded |= bit(i);
    return RL_UNSEEDED;
}

int lease_insists(const struct rl_round *round, int i)
{
    return (round->lease->touched & bit(i)) != 0;
}

void lease_sent(struct rl_round *round, int i, int64_t now_ms)
{
    (void)i;
    may_live(round->lease, now_ms + round->lease_ms);
}

void lease_sent_value(struct rl_round *round, int i, int64_t now_ms)
{
    round->lease->touched |= bit(i);
    lease_sent(round, i, now_ms);
}

/* Does not send again for a lease that has ended: its value would follow its release. */
int lease_unknown(struct rl_round *round, int i, int64_t now_ms)
{
    if (!round->outcome || lease_remaining_ms(round->lease, now_ms) > 0)
        return 1;
    lease_refused(round->lease, i);
    return 0;
}

void lease_broken(struct rl_round *round, int i, int written, int64_t now_ms)
{
    if (!written)
        return;
    round->lease->broken |= bit(i);
    may_live(round->lease, now_ms + round->lease_ms);
}
