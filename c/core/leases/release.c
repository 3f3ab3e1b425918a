#include "core/leases/release.h"

#include "core/leases/fence.h"
#include "core/leases/heal.h"

/* When retry n is due: in one node time-out, doubled each time up to 8. */
static int64_t retry_ms(const struct core *core, int i, int n, int64_t now_ms)
{
    return now_ms + ((int64_t)core->nodes[i].config->timeout_ms << (n < 3 ? n : 3));
}

/* Sets the timer to the next retry. */
static void retry_later(struct rl_lease *lease, int i, int64_t now_ms)
{
    int64_t due_ms = retry_ms(lease->core, i, lease->retries++, now_ms);
    timer_set(&lease->core->timers, &lease->timer,
              due_ms < lease->gone_ms ? due_ms : lease->gone_ms);
}

/* If only a minority can have the keys, nobody was kept out, so the release wakes no
 * waiters (lease 0). Without this, refused waiters that release their few grants would
 * wake each other for ever. */
static void leave_unannounced(struct rl_lease *lease)
{
    struct core *core = lease->core;
    struct rl_round *release = lease->release;
    if (state_majority(core, lease->touched & ~lease->failed))
        return;
    struct cmd *cmd = cmd_with_lease(&core->cmds, lease->cmd, 0);
    if (!cmd)
        return;
    cmd_unref(&core->cmds, release->cmd);
    release->cmd = cmd;
}

static void end_attempt(struct rl_lease *lease)
{
    struct rl_round *acquire = lease->acquire;
    lease->acquire = NULL;
    if (acquire)
        round_end(acquire, RL_CANCELLED);
}

void release_leave(struct rl_lease *lease, int outcome)
{
    lease->deadline_ms = 0;
    lease->state = LEASE_OVER;
    lease->release->outcome = outcome;
    end_attempt(lease);
    if (lease->list)
        lease_forget(lease);
}

void release_end(struct rl_lease *lease, int64_t now_ms)
{
    struct core *core = lease->core;
    struct rl_round *release = lease->release;
    if (lease->state == LEASE_OVER)
        return;
    if (lease->once && core->options.lock_delay_ms) {    /* an export that failed: a loss */
        release_leave(lease, RL_EXPIRED);
        return;
    }
    if (lease->state == LEASE_ACQUIRING)
        leave_unannounced(lease);
    lease->refs++;                     /* keeps it between two lists */
    if (lease->list)
        lease_forget(lease);
    lease->ended_valid_until_ms = lease->deadline_ms;
    lease->state = LEASE_OVER;
    lease->deadline_ms = 0;
    lease_enlist(&core->owing, lease);
    lease_unref(lease);
    end_attempt(lease);
    if (lease->import)
        lease->touched = UINT32_MAX >> (RL_MAX_NODES - core->n);
    /* The others get one release if they are connected. */
    lease_owes(lease, lease->touched);
    release->cap_ms = INT64_MAX;
    timer_set(&core->timers, &lease->timer, lease->gone_ms);
    round_begin(release, now_ms);
    for (int i = 0; i < core->n; i++) {
        if (!(lease->owed & ~lease->releasing & bit(i)))
            continue;
        if (core->nodes[i].state == NODE_DOWN)
            state_reconnect(core, i, now_ms);
        else if (core->nodes[i].state == NODE_READY)
            retry_later(lease, i, now_ms);     /* could not be queued */
    }
    int over = core->owing_len > OWING_MAX;
    core->forgone += lease->owed && over;      /* connected nodes were sent it */
    if (!lease->owed || over)
        lease_forget(lease);
}

/* ---- sending the releases that an ended lease owes ---- */

/* Sends the release owed to node i, which is ready. While the server refuses releases as a
 * whole, one of all leases tries. */
static void pay(struct rl_lease *lease, int i, int64_t now_ms)
{
    struct guard *g = &lease->core->guards[i];
    if (((lease->owed & ~lease->releasing) & bit(i)) && now_ms >= g->probe_ms) {
        if (g->probes)
            g->probe_ms = retry_ms(lease->core, i, g->probes++, now_ms);
        round_send(lease->release, i, now_ms);
    }
    if ((lease->owed & ~lease->releasing) & bit(i))
        retry_later(lease, i, now_ms);         /* could not be queued, or must wait */
}

void release_pay_all(struct core *core, int i, int silent, int64_t now_ms)
{
    for (struct rl_lease *lease = core->owing; lease; lease = lease->next) {
        int waiting = lease->release->slot[i].state == SLOT_WAITING;    /* sent at once */
        if (silent && !waiting && lease->broken & lease->owed & bit(i)) {
            lease->broken &= ~bit(i);
            retry_later(lease, i, now_ms);
        } else {
            pay(lease, i, now_ms);
        }
    }
}

void release_by_twin(struct core *core, int i, int twin, int64_t now_ms)
{
    struct rl_lease *next;
    for (struct rl_lease *lease = twin >= 0 ? core->owing : NULL; lease; lease = next) {
        next = lease->next;
        if (!(lease->owed & bit(i)))
            continue;
        lease->touched |= bit(twin);
        lease->broken |= lease->broken & bit(i) ? bit(twin) : 0;
        lease_owes(lease, (lease->owed & ~bit(i)) | bit(twin));
        pay(lease, twin, now_ms);
    }
}

void release_on_timer(struct rl_lease *lease, int64_t now_ms)
{
    if (now_ms >= lease->gone_ms) {
        lease_forget(lease);
        return;
    }
    timer_set(&lease->core->timers, &lease->timer, lease->gone_ms);
    for (int i = 0; i < lease->core->n; i++) {
        if (lease->core->nodes[i].state == NODE_READY)
            pay(lease, i, now_ms);
    }
}

/* ---- a round's hooks ---- */

static int release_put(struct rl_round *release, int i, int64_t now_ms)
{
    heal_imported(release->lease, i, now_ms);
    return fence_release(release, i, now_ms);
}

static void release_sent(struct rl_round *release, int i, int64_t now_ms)
{
    (void)now_ms;
    release->lease->releasing |= bit(i);
}

static int release_read(struct rl_round *release, int i, const struct reply *reply,
                        struct vote *vote)
{
    int code = lease_vote(release, i, reply, vote);
    /* The server may have executed the first release although its answer was lost, and
     * another holder may have taken the keys since. */
    if (!code && vote->vote <= RL_VOTE_ABSENT && release->slot[i].resends)
        vote->vote = RL_VOTE_YES;
    return code;
}

static int release_answered(struct rl_round *release, int i, int code,
                            const struct vote *vote, int64_t now_ms)
{
    (void)vote;
    struct rl_lease *lease = release->lease;
    struct core *core = lease->core;
    struct guard *g = &core->guards[i];
    if (!wire_refused(&core->nodes[i].wire.reply))
        g->probe_ms = g->probes = 0;
    else if (!g->probes)
        g->probe_ms = retry_ms(core, i, g->probes++, now_ms);
    lease->releasing &= ~bit(i);
    if (!lease_owing(lease))
        return code;
    if (!code && lease->broken & bit(i)) {
        lease->broken &= ~bit(i);        /* again: the broken write may arrive late */
        retry_later(lease, i, now_ms);
    } else if (!code || !(lease->touched & bit(i))) {
        lease_paid(lease, i);
    } else {
        retry_later(lease, i, now_ms);
    }
    return code;
}

static int release_unknown(struct rl_round *release, int i, int64_t now_ms)
{
    (void)now_ms;
    release->lease->releasing &= ~bit(i);
    return 1;
}

static void release_broken(struct rl_round *release, int i, int written, int64_t now_ms)
{
    (void)written, (void)now_ms;
    struct rl_lease *lease = release->lease;
    lease->releasing &= ~bit(i);
    if (lease_owing(lease) && !(lease->touched & bit(i)))
        lease_untouched(lease, i);     /* no earlier write arrived, either */
}

static int outcome_of(struct rl_lease *lease, enum verdict verdict)
{
    if (verdict == LOST) {
        if (!quorum_answered(&lease->release->tally))
            return RL_UNKNOWN;
        return quorum_foreign(&lease->release->tally) ? RL_HELD : RL_EXPIRED;
    }
    int in_time = !lease->lost &&
                  lease->release->started_ms < lease->ended_valid_until_ms;
    return in_time ? RL_GRANTED : RL_EXPIRED;
}

static void release_decide(struct rl_round *release, int64_t now_ms)
{
    (void)now_ms;
    enum verdict v = quorum_release(&release->tally);
    if (v != UNDECIDED)
        round_end(release, outcome_of(release->lease, v));
}

const struct round_kind release_kind = {
    .timed = RL_TIMES_RELEASE,
    .to_all = 1,
    .used = lease_used,
    .unused = lease_unused,
    .insists = lease_insists,
    .put = release_put,
    .sent = release_sent,
    .read = release_read,
    .answered = release_answered,
    .unknown = release_unknown,
    .broken = release_broken,
    .decide = release_decide,
};
