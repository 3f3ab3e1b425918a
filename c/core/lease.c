/* lease.c - a lease from its first SET on: acquired, held, extended, handed on. */
#include "core/lease.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/fence.h"
#include "core/guard.h"
#include "core/release.h"
#include "core/watchdog.h"

static struct rl_lease *lease_new(struct core *core)
{
    struct rl_lease *lease = core->lease_pool;
    if (lease) {
        core->lease_pool = lease->next;
    } else {
        lease = state_alloc(core, sizeof(*lease));
        if (!lease)
            return NULL;
    }
    memset(lease, 0, sizeof(*lease));
    lease->core = core;
    lease->epoch = core->epoch;
    lease->timer.kind = TIMER_LEASE;
    return lease;
}

void lease_recycle(struct rl_lease *lease)
{
    struct core *core = lease->core;
    assert(!lease->list && !lease->timer.at);
    if (lease->before)
        lease_unref(lease->before);
    if (lease->release)
        round_recycle(lease->release);
    if (lease->cmd)
        cmd_unref(&core->cmds, lease->cmd);
    lease->next = core->lease_pool;
    core->lease_pool = lease;
}

void lease_unref(struct rl_lease *lease)
{
    assert(lease->refs > 0);
    if (--lease->refs == 0)
        lease_recycle(lease);
}

/* ---- the held and the owing list, each with a reference ---- */

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
    lease->keep_ms = 0;
    timer_clear(&lease->core->timers, &lease->timer);
    lease_unref(lease);
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
    lease->touched &= ~bit(i);
    if (lease_owing(lease) && !(lease->releasing & bit(i)))
        lease_paid(lease, i);
}

/* ---- acquire ---- */

/* A lease of this cmd, which it takes over, with its release; no reference. NULL: out of
 * memory. */
static struct rl_lease *lease_of(struct core *core, const rl_primitive *primitive,
                                 const char *value, struct cmd *cmd, int64_t token)
{
    struct rl_lease *lease = cmd ? lease_new(core) : NULL;
    if (!lease) {
        if (cmd)
            cmd_unref(&core->cmds, cmd);
        return NULL;
    }
    memcpy(lease->value, value, RL_VALUE_LEN);
    lease->primitive = *primitive;
    lease->token = token;
    lease->cmd = cmd;
    lease->release =
        round_new(core, ROUND_RELEASE, primitive->release, lease, cmd_ref(cmd));
    if (lease->release)
        return lease;
    lease_recycle(lease);
    return NULL;
}

/* The same of its arguments. NULL: also when closed. */
static struct rl_lease *lease_prepare(struct core *core, const rl_primitive *primitive,
                                      const rl_bytes *keys, int nkeys,
                                      const rl_bytes *args, int nargs, const char *value,
                                      int64_t lease_ms, int64_t token)
{
    if (core->closed)
        return NULL;
    return lease_of(core, primitive, value,
                    cmd_new_lease(&core->cmds, keys, nkeys, value,
                                  lease_ms + core->options.lock_delay_ms,
                                  primitive->confirm >= 0 ? token : -1, args, nargs),
                    token);
}

struct rl_lease *lease_like(const struct rl_lease *old, const char *value,
                            int64_t lease_ms)
{
    struct core *core = old->core;
    if (core->closed)
        return NULL;
    struct cmd *cmd =
        cmd_with_value(&core->cmds, old->cmd, value,
                       lease_ms + core->options.lock_delay_ms);
    if (cmd && lease_fenced(old)) {          /* its token is not issued yet */
        struct cmd *unissued = cmd_with_token(&core->cmds, cmd, 0);
        cmd_unref(&core->cmds, cmd);
        cmd = unissued;
    }
    return lease_of(core, &old->primitive, value, cmd, 0);
}

/* The node at which contenders for the same name meet; -1: none is up. */
static int pick_gate(const struct core *core, int home, int64_t now_ms)
{
    for (int k = 0; k < core->n; k++) {
        int i = (home + k) % core->n;
        if (core->nodes[i].state == NODE_READY && !state_spares(core, i, now_ms))
            return i;
    }
    return -1;
}

rl_round *lease_acquire(struct core *core, const rl_primitive *primitive,
                        const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                        const char *value, int64_t lease_ms, int64_t within_ms, int home,
                        int64_t now_ms, rl_lease **out)
{
    struct rl_lease *lease =
        lease_prepare(core, primitive, keys, nkeys, args, nargs, value, lease_ms, 0);
    if (!lease)
        return NULL;
    struct rl_round *acquire =
        round_new(core, ROUND_ACQUIRE, primitive->acquire, lease, cmd_ref(lease->cmd));
    if (!acquire) {
        lease_recycle(lease);
        return NULL;
    }
    acquire->gate = home < 0 ? -1 : pick_gate(core, home, now_ms);
    /* An answer after the validity is used up is of no use, so do not wait for it. */
    int64_t useful_ms = quorum_deadline_ms(now_ms, lease_ms, core->drift_ppm);
    if (lease_ms < core->lease_ms)
        core->lease_ms = lease_ms;
    acquire->lease_ms = lease_ms;
    acquire->cap_ms = now_ms + within_ms < useful_ms ? now_ms + within_ms : useful_ms;
    lease->acquire = acquire;
    lease->refs++;
    core->handles++;
    *out = lease;
    round_handle(acquire);
    round_begin(acquire, now_ms);
    return acquire;
}

void lease_issue(struct rl_lease *lease, const struct rl_round *round)
{
    struct core *core = lease->core;
    struct cmd *cmd = cmd_with_token(&core->cmds, lease->cmd, round->token);
    lease->token = round->token;
    for (int i = 0; i < core->n; i++) {
        if (round->slot[i].state == SLOT_ANSWERED && round->slot[i].vote >= RL_VOTE_YES)
            fence_counted(lease, i, round->slot[i].extra);
    }
    if (!cmd)
        return;              /* the scripts see token 0: they leave the counters alone */
    cmd_unref(&core->cmds, lease->cmd);
    cmd_unref(&core->cmds, lease->release->cmd);
    lease->cmd = cmd;
    lease->release->cmd = cmd_ref(cmd);
}

int lease_acquired(struct rl_lease *lease, const struct rl_round *round,
                   enum verdict verdict, int64_t now_ms)
{
    lease->acquire = NULL;
    if (verdict == WON) {
        int64_t deadline_ms = quorum_deadline_ms(round->started_ms, round->lease_ms,
                                                 lease->core->drift_ppm);
        if (now_ms >= deadline_ms)
            return RL_EXPIRED;
        if (lease_fenced(lease))
            lease_issue(lease, round);
        lease->state = LEASE_HELD;
        lease->deadline_ms = deadline_ms;
        lease_enlist(&lease->core->held, lease);
        watchdog_schedule(lease);
        guard_arm_timer(lease->core, now_ms);
        return RL_GRANTED;
    }
    if (!quorum_missing(&round->tally))
        return RL_HELD;
    for (int i = 0; i < round->core->n; i++) {
        if (round->slot[i].state == SLOT_MISSING && round->slot[i].code == RL_CONFIG)
            return RL_CONFIG;          /* asking again would not help */
    }
    return RL_NO_QUORUM;
}

void lease_may_live(struct rl_lease *lease, int64_t until_ms)
{
    until_ms += lease->core->options.lock_delay_ms;
    if (until_ms > lease->gone_ms)
        lease->gone_ms = until_ms;
}

void lease_refused(struct rl_lease *lease, int i)
{
    if (!(lease->torn & bit(i)))
        lease_untouched(lease, i);
}

/* ---- extend ---- */

static struct rl_round *settled(struct rl_round *round, int outcome)
{
    round_handle(round);
    round->outcome = outcome;
    return round;
}

struct rl_round *lease_extend_round(struct rl_lease *lease, int64_t lease_ms)
{
    struct core *core = lease->core;
    int64_t ttl_ms = lease_ms ? lease_ms + core->options.lock_delay_ms : 0;
    struct cmd *cmd = cmd_with_lease(&core->cmds, lease->cmd, ttl_ms);
    struct rl_round *round =
        cmd ? round_new(core, ROUND_EXTEND, lease->primitive.extend, lease, cmd) : NULL;
    if (round) {
        round->lease_ms = lease_ms;
        round->cap_ms = lease->deadline_ms;
    }
    return round;
}

rl_round *lease_extend(rl_lease *lease, int64_t lease_ms, int64_t now_ms)
{
    struct rl_round *round = lease_extend_round(lease, lease_ms);
    if (!round)
        return NULL;
    if (lease->core->closed)
        return settled(round, RL_CLOSED);
    if (lease->primitive.extend < 0)
        return settled(round, RL_UNSUPPORTED);
    if (lease_void(lease) || lease->state != LEASE_HELD)
        return settled(round, RL_NOT_HELD);
    if (now_ms >= lease->deadline_ms)
        return settled(round, RL_LOST);
    round_handle(round);
    round_begin(round, now_ms);
    return round;
}

int lease_extended(struct rl_lease *lease, const struct rl_round *round,
                   enum verdict verdict, int64_t now_ms)
{
    if (lease->state != LEASE_HELD)
        return RL_NOT_HELD;
    if (now_ms >= lease->deadline_ms)
        return RL_LOST;
    const struct tally *t = &round->tally;
    if (verdict == LOST)
        return t->absent + t->foreign >= quorum_size(t->n) ? RL_LOST : RL_NO_QUORUM;
    int64_t deadline_ms = quorum_deadline_ms(round->started_ms, round->lease_ms,
                                             lease->core->drift_ppm);
    if (deadline_ms > lease->deadline_ms)
        lease->deadline_ms = deadline_ms;    /* the servers never shorten, nor do we */
    watchdog_schedule(lease);
    return RL_GRANTED;
}

/* ---- from process to process ---- */

rl_lease *lease_adopt(struct core *core, const rl_primitive *primitive,
                      const rl_bytes *keys, int nkeys, const rl_bytes *args, int nargs,
                      const char *value, int64_t lease_ms, int64_t token, int64_t now_ms)
{
    struct rl_lease *lease =
        lease_prepare(core, primitive, keys, nkeys, args, nargs, value, lease_ms, token);
    if (!lease)
        return NULL;
    lease->state = LEASE_HELD;
    lease->deadline_ms = quorum_deadline_ms(now_ms, lease_ms, core->drift_ppm);
    lease->touched = (uint32_t)(link_bit(core->n) - 1);
    lease_may_live(lease, now_ms + lease_ms);
    lease->refs++;
    core->handles++;
    lease_enlist(&core->held, lease);
    watchdog_schedule(lease);
    guard_arm_timer(core, now_ms);
    return lease;
}

void lease_disown(rl_lease *lease)
{
    if (lease->list == &lease->core->held)
        release_leave(lease, RL_NOT_HELD);
    lease->core->handles--;
    lease_unref(lease);
}

/* ---- the caller's handles ---- */

int64_t lease_remaining_ms(const rl_lease *lease, int64_t now_ms)
{
    int64_t left_ms = lease->deadline_ms - now_ms;
    return left_ms > 0 && !lease_void(lease) ? left_ms : 0;
}

void round_free(rl_round *round)
{
    round->core->handles--;
    if (round->kind == ROUND_SLEEP && !round->outcome) {
        round->notify = 0;
        round_end(round, RL_CANCELLED);        /* else it would be there until its time */
    }
    round_unref(round);
}

void lease_drop(rl_lease *lease, int64_t now_ms)
{
    if (lease->state == LEASE_ACQUIRING && !lease_void(lease))
        release_end(lease, now_ms);
    else if (lease->list == &lease->core->held)
        watchdog_orphan(lease);
    lease->core->handles--;
    lease_unref(lease);
}

void lease_abandon(rl_lease *lease, int64_t now_ms)
{
    if (!lease_void(lease))
        release_end(lease, now_ms);
    lease_drop(lease, now_ms);
}

void lease_orphan(rl_lease *lease, int64_t now_ms)
{
    struct core *core = lease->core;
    /* With a lock delay the name stays closed behind an owner who did not let it go. */
    if (lease->list == &core->held && !lease->lost && !core->options.lock_delay_ms &&
        !lease_void(lease))
        release_end(lease, now_ms);
    lease_drop(lease, now_ms);
}
