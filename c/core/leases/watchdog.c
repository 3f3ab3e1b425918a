#include "core/leases/watchdog.h"

#include <stdlib.h>
#include <string.h>

#include "core/eligibility/guard.h"
#include "core/leases/fence.h"
#include "core/leases/heal.h"
#include "core/leases/pace.h"
#include "core/leases/release.h"

/* Shares of a lease, and bounds in ms. A renewal begins after a third of the lease (like
 * Redisson's watchdog), which leaves two thirds for retries. */
enum {
    RENEW_AFTER = 3,
    GRAIN = 32,              /* renewals due within a 32nd of a lease go together */
    RETRY_FIRST = 60,        /* after a renewal failed: a 60th, doubled ... */
    RETRY_LAST = 12,         /* ... up to a 12th: at most some 15 in a lease */
    RETRY_MIN_MS = 5,
    ROUNDING_MS = 1          /* a remaining time is a difference of whole ms */
};

/* Sets the timer of a held lease. */
static void schedule(struct rl_lease *lease)
{
    struct core *core = lease->core;
    int64_t due_ms = lease->deadline_ms;
    if (lease->turn.at)
        timer_set(&core->pace.waiting, &lease->turn, due_ms);
    if ((lease->keep_ms || lease->asks) && !lease->renewal) {
        int64_t begin_ms = lease->turn.at ? pace_urgent_ms(lease) : lease->renew_ms;
        due_ms = begin_ms < due_ms ? begin_ms : due_ms;
    }
    timer_set(&core->timers, &lease->timer, due_ms);
}

void watchdog_hold(struct rl_lease *lease, int64_t deadline_ms, int64_t now_ms)
{
    lease->state = LEASE_HELD;
    lease->deadline_ms = deadline_ms;
    lease_enlist(&lease->core->held, lease);
    schedule(lease);
    guard_arm_timer(lease->core, now_ms);
}

/* The lease counts from the start of the last round, which may be long ago. */
static void renew_later(struct rl_lease *lease, int64_t now_ms)
{
    int64_t grain_ms = lease->keep_ms / GRAIN + 1;
    int64_t from_ms = lease->deadline_ms -
                      quorum_deadline_ms(0, lease->keep_ms, lease->core->drift_ppm);
    if (from_ms > now_ms)
        from_ms = now_ms;
    lease->renew_ms = from_ms + lease->keep_ms / RENEW_AFTER;
    lease->renew_ms -= lease->renew_ms % grain_ms;
}

void watchdog_start(rl_lease *lease, int64_t lease_ms, int64_t max_hold_ms,
                    int64_t now_ms)
{
    if (lease->list != &lease->core->held || lease->lost || lease->primitive.extend < 0)
        return;
    lease->keep_ms = lease_ms;
    lease->hold_until_ms = max_hold_ms ? now_ms + max_hold_ms : INT64_MAX;
    renew_later(lease, now_ms);
    schedule(lease);
}

/* ---- losing ---- */

void watchdog_lose(struct rl_lease *lease, enum rl_loss reason)
{
    lease_unkeep(lease);
    if (lease->lost)
        return;
    struct core *core = lease->core;
    lease->lost = reason;
    core->lost[core->losses % NOTED_MAX] = lease;
    core->losses++;
}

void watchdog_orphan(struct rl_lease *lease)
{
    lease->orphan = 1;
    lease_unkeep(lease);
    if (!lease->lost)
        schedule(lease);
    else if (!lease->promised_ms)
        lease_forget(lease);
}

/* Ends the validity now, but releases the keys only at the deadline that the holder has
 * read: it may act on that until then, not knowing of the loss. A holder that knows ends
 * the lease by a release. */
static void expire_when_promised(struct rl_lease *lease)
{
    lease->promised_ms =
        lease->deadline_ms + ROUNDING_MS + lease->core->options.lock_delay_ms;
    lease->deadline_ms = 0;
    timer_set(&lease->core->timers, &lease->timer, lease->promised_ms);
}

static void expire(struct rl_lease *lease, int64_t now_ms)
{
    if (lease->promised_ms) {
        if (now_ms >= lease->promised_ms)
            release_end(lease, now_ms);
        else
            timer_set(&lease->core->timers, &lease->timer, lease->promised_ms);
        return;
    }
    if (lease->orphan) {
        lease_forget(lease);
        return;
    }
    enum rl_loss reason = RL_LOSS_EXPIRED;
    /* A timer this late means that the process did not run. */
    if (lease->keep_ms && state_late_ms(lease->core, now_ms) > lease->keep_ms / 2)
        reason = RL_LOSS_SUSPENDED;
    else if (now_ms >= lease->hold_until_ms && lease->hold_until_ms)
        reason = RL_LOSS_MAX_HOLD;
    watchdog_lose(lease, reason);
    /* A renewal whose answer was lost may have prolonged the keys; they should outlive
     * the hold only with a lock delay. */
    if (lease->hold_until_ms && !lease->core->options.lock_delay_ms)
        expire_when_promised(lease);
}

int watchdog_lost_why(rl_lease *lease, int64_t now_ms)
{
    if (lease->list == &lease->core->held && now_ms >= lease->deadline_ms)
        expire(lease, now_ms);
    return lease->lost;
}

/* Notes the holder that a majority names, unless memory is out. */
static void note_taker(struct rl_lease *lease, const struct rl_round *round)
{
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        char *copy;
        if (lease->taker.len || slot->vote != RL_VOTE_FOREIGN || !slot->data_len ||
            !state_majority(round->core, round_alike(round, i)) ||
            !(copy = malloc(slot->data_len)))
            continue;
        memcpy(copy, round_data(slot), slot->data_len);
        lease->taker = (rl_bytes){copy, slot->data_len};
    }
}

/* The lease is lost: an extension was too late, or a majority of these votes disowns it.
 *
 * Nodes that disown it may have lost their memory, and do not vote for a while; meanwhile
 * the others keep the name closed, for the lock delay, too. */
static void disowned(struct rl_lease *lease, const struct rl_round *round, int64_t now_ms)
{
    note_taker(lease, round);
    if (!watchdog_lost_why(lease, now_ms))
        watchdog_lose(lease, round->tally.foreign ? RL_LOSS_TAKEN : RL_LOSS_FORGOTTEN);
    if (lease->list == &lease->core->held && !lease->promised_ms)
        expire_when_promised(lease);
    else if (lease->list != &lease->core->held && !lease->core->options.lock_delay_ms)
        release_end(lease, now_ms);        /* an orphan that had expired */
}

int watchdog_delays(struct rl_lease *lease, int64_t now_ms)
{
    struct core *core = lease->core;
    return core->options.lock_delay_ms && watchdog_lost_why(lease, now_ms) &&
           lease->list == &core->held;
}

/* ---- extensions ---- */

/* Schedules the renewal after the one that ended. */
static void renewed(struct rl_lease *lease, int outcome, int64_t now_ms)
{
    lease->renewal = NULL;
    lease->asks = 0;
    if (!lease->keep_ms || lease->state != LEASE_HELD)
        return;
    if (outcome == RL_GRANTED) {
        lease->failures = 0;
        lease->core->renewed[lease->core->renewals % NOTED_MAX] = lease;
        lease->core->renewals++;
        renew_later(lease, now_ms);
        if (lease->hurried)
            lease->renew_ms = now_ms;
    } else {
        int64_t wait_ms = (lease->keep_ms / RETRY_FIRST)
                          << (lease->failures < 3 ? lease->failures : 3);
        if (wait_ms > lease->keep_ms / RETRY_LAST)
            wait_ms = lease->keep_ms / RETRY_LAST;
        lease->failures++;
        lease->renew_ms = now_ms + (wait_ms > RETRY_MIN_MS ? wait_ms : RETRY_MIN_MS);
    }
    schedule(lease);
}

static int extend_outcome(struct rl_lease *lease, const struct rl_round *round,
                          enum verdict verdict, int64_t now_ms)
{
    if (lease->state != LEASE_HELD)
        return RL_NOT_HELD;
    if (now_ms >= lease->deadline_ms)
        return RL_LOST;
    if (verdict == LOST)
        return quorum_disowned(&round->tally) ? RL_LOST : RL_NO_QUORUM;
    int64_t deadline_ms = quorum_deadline_ms(round->started_ms, round->lease_ms,
                                             lease->core->drift_ppm);
    if (deadline_ms > lease->deadline_ms)
        lease->deadline_ms = deadline_ms;    /* the servers never shorten, nor do we */
    lease->confirmed = round_yes(round);
    schedule(lease);
    return RL_GRANTED;
}

static void extend_decide(struct rl_round *round, int64_t now_ms)
{
    struct rl_lease *lease = round->lease;
    enum verdict v = quorum_extend(&round->tally);
    if (v == UNDECIDED)
        return;
    round_ref(round);
    round_end(round, extend_outcome(lease, round, v, now_ms));
    if (round == lease->renewal)
        renewed(lease, round->outcome, now_ms);
    for (int i = 0; round->outcome == RL_GRANTED && i < round->core->n; i++) {
        if (round->slot[i].state == SLOT_ANSWERED && round->slot[i].vote == RL_VOTE_ABSENT)
            heal_begin(lease, round, i, now_ms);
    }
    if (round->outcome == RL_LOST)
        disowned(lease, round, now_ms);
    round_unref(round);
}

/* An answer too late for the vote can still heal its node. */
static void extend_late(struct rl_round *round, int i, const struct vote *vote,
                        int64_t now_ms)
{
    if (round->outcome == RL_GRANTED && vote->vote == RL_VOTE_YES)
        round->lease->confirmed |= bit(i);
    if (round->outcome == RL_GRANTED && vote->vote == RL_VOTE_ABSENT)
        heal_begin(round->lease, round, i, now_ms);
}

/* Renewals that begin together go in one batch. */
static int extend_put(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    int many = round->lease->primitive.extend_many;
    const char *marker = guard_arg(core, i, round->lease->primitive.knows_run, 1);
    return core->pace.together && many
               ? node_call_with(&core->nodes[i], many, round->script, round->cmd, marker, round,
                                now_ms)
               : round_call(round, i, marker, now_ms);
}

/* The extension may be granted without this node, which still needs healing. */
static int extend_unknown(struct rl_round *round, int i, int64_t now_ms)
{
    (void)i;
    return !round->outcome || (round->outcome == RL_GRANTED &&
                               lease_remaining_ms(round->lease, now_ms) > 0);
}

static const struct round_kind extend_kind = {
    .shown = 1,
    .expired = RL_LOST,
    .used = lease_used,
    .unused = lease_unused,
    .insists = lease_insists,
    .put = extend_put,
    .sent = lease_sent,
    .read = lease_vote,
    .unknown = extend_unknown,
    .late = extend_late,
    .decide = extend_decide,
};

struct rl_round *watchdog_extension(struct rl_lease *lease, int64_t lease_ms)
{
    struct core *core = lease->core;
    int64_t ttl_ms = lease_ms ? lease_ttl_ms(core, lease_ms) : 0;
    struct cmd *cmd = cmd_with_lease(&core->cmds, lease->cmd, ttl_ms);
    struct rl_round *round =
        cmd ? round_new(core, &extend_kind, lease->primitive.extend, lease, cmd) : NULL;
    if (round) {
        round->lease_ms = lease_ms;
        round->cap_ms = lease->deadline_ms;
        lease->confirmed_before = __builtin_popcount(lease->confirmed);
    }
    return round;
}

static void renew(struct rl_lease *lease, int64_t now_ms)
{
    struct rl_round *round = watchdog_extension(lease, lease->keep_ms);
    if (!round) {            /* out of memory: like no answer */
        renewed(lease, RL_NO_QUORUM, now_ms);
        return;
    }
    round->unattended = 1;
    lease->hurried = 0;
    lease->renewal = round;
    round_begin(round, now_ms);
}

static void renew_now(struct rl_lease *lease, int64_t now_ms)
{
    if (now_ms >= lease->hold_until_ms)
        lease->keep_ms = 0;
    timer_clear(&lease->core->timers, &lease->timer);    /* a renewal ends before its lease */
    if (lease->keep_ms || lease->asks)
        renew(lease, now_ms);
    schedule(lease);
}

void watchdog_on_timer(struct rl_lease *lease, int64_t now_ms)
{
    if (now_ms >= lease->deadline_ms) {
        expire(lease, now_ms);
        return;
    }
    if ((lease->keep_ms || lease->asks) && !lease->renewal && now_ms >= lease->renew_ms &&
        !pace_waits(lease, now_ms))
        renew_now(lease, now_ms);
    else
        schedule(lease);
}

void watchdog_go_on(struct core *core, int64_t now_ms)
{
    struct rl_lease *lease;
    if (!core->pace.waiting.len)
        return;
    core->pace.together = 1;
    while ((lease = pace_next(core, now_ms)))
        renew_now(lease, now_ms);
    core->pace.together = 0;
    for (int i = 0; i < core->n; i++)
        node_flush(&core->nodes[i]);
}

void watchdog_hurry(struct core *core, int64_t lost_ms, int64_t now_ms)
{
    for (struct rl_lease *lease = core->held; lease; lease = lease->next) {
        lease->deadline_ms -= lost_ms;
        lease->renew_ms = now_ms;
        lease->asks = lease->primitive.extend >= 0 && !lease->lost;
        lease->hurried = lease->renewal != NULL;
        schedule(lease);
    }
    for (struct rl_round *round = core->active; round; round = round->next) {
        if (round->kind->expired)
            round->started_ms -= lost_ms;
    }
}
