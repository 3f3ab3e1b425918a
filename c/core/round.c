/* round.c - one command to all nodes, votes counted until the outcome is certain. */
#include "core/round.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/fence.h"
#include "core/guard.h"
#include "core/handover.h"
#include "core/lease.h"
#include "core/release.h"
#include "core/subscription.h"
#include "core/watchdog.h"
#include "node/health.h"

/* A renewal's answer may take that part of the lease, as may the pause before the next
 * one (watchdog.c). */
enum { RENEWAL_SHARE = 12 };

struct rl_round *round_new(struct core *core, enum round_kind kind, int script,
                           struct rl_lease *lease, struct cmd *cmd)
{
    size_t size = sizeof(struct rl_round) + (size_t)core->n * sizeof(struct slot);
    struct rl_round *round = core->round_pool;
    if (round) {
        core->round_pool = round->next;
    } else if (!(round = state_alloc(core, size))) {
        if (cmd)
            cmd_unref(&core->cmds, cmd);
        return NULL;
    }
    memset(round, 0, sizeof(*round));
    for (int i = 0; i < core->n; i++)
        memset(&round->slot[i], 0, offsetof(struct slot, data));
    round->core = core;
    round->kind = kind;
    round->script = script;
    round->lease = lease;
    round->cmd = cmd;
    round->timer.kind = TIMER_ROUND;
    round->gate = -1;
    round->tally = (struct tally){.n = core->n, .pending = core->n};
    return round;
}

struct rl_round *round_ref(struct rl_round *round)
{
    round->refs++;
    if (round->lease)
        round->lease->refs++;
    return round;
}

struct rl_round *round_handle(struct rl_round *round)
{
    round->core->handles++;
    return round_ref(round);
}

void round_recycle(struct rl_round *round)
{
    assert(round->refs == 0 && !round->timer.at);
    if (round->cmd)
        cmd_unref(&round->core->cmds, round->cmd);
    round->next = round->core->round_pool;
    round->core->round_pool = round;
}

void round_unref(struct rl_round *round)
{
    assert(round->refs > 0);
    struct rl_lease *lease = round->lease;
    if (--round->refs == 0 && round->kind != ROUND_RELEASE)
        round_recycle(round);           /* a release goes with its lease */
    if (lease)
        lease_unref(lease);
}

/* ---- the active list ---- */

static void activate(struct rl_round *round)
{
    struct core *core = round->core;
    round->next = NULL;
    round->prev = core->active_last;
    if (core->active_last)
        core->active_last->next = round;
    else
        core->active = round;
    core->active_last = round;
    core->unattended += round->unattended;
    round_ref(round);
}

static void deactivate(struct rl_round *round)
{
    struct core *core = round->core;
    if (round->prev)
        round->prev->next = round->next;
    else
        core->active = round->next;
    if (round->next)
        round->next->prev = round->prev;
    else
        core->active_last = round->prev;
    round->next = round->prev = NULL;
    core->unattended -= round->unattended;
    round_unref(round);
}

/* ---- votes ---- */

static int slot_pending(const struct slot *slot)
{
    return slot->state == SLOT_IDLE || slot->state == SLOT_WAITING ||
           slot->state == SLOT_SENT || slot->state == SLOT_CONFIRMING;
}

void round_count(struct rl_round *round, int i, enum slot_state state, int *place)
{
    struct slot *slot = &round->slot[i];
    if (slot_pending(slot))
        round->tally.pending--;
    else
        round->tally.missing--;
    slot->state = (uint8_t)state;
    (*place)++;
}

/* For ROUND_ASK: the largest group of nodes with the same vote and data. */
static enum verdict ask_verdict(struct rl_round *round)
{
    int n = round->core->n, most = 0;
    for (int i = 0; i < n; i++) {
        const struct slot *a = &round->slot[i];
        uint32_t group = 0;
        int size = 0;
        for (int j = 0; j < n && a->state == SLOT_ANSWERED; j++) {
            const struct slot *b = &round->slot[j];
            if (b->state == SLOT_ANSWERED && b->vote == a->vote &&
                b->data_len == a->data_len && !memcmp(b->data, a->data, a->data_len)) {
                group |= bit(j);
                size++;
            }
        }
        if (size > most)
            most = size;
        if (size >= quorum_size(n)) {
            round->agreed = group;
            return WON;
        }
    }
    if (most + round->tally.pending >= quorum_size(n))
        return UNDECIDED;
    /* No majority agrees; whether one answered must be known as well. */
    return quorum_answered(&round->tally) || quorum_missing(&round->tally) ? LOST
                                                                           : UNDECIDED;
}

void round_heal(struct rl_round *round, int i, int vote, int64_t now_ms)
{
    if (vote == RL_VOTE_ABSENT)
        watchdog_heal(round->lease, round, i, now_ms);
}

static void round_pass_gate(struct rl_round *round, int64_t now_ms);

void round_decide(struct rl_round *round, int64_t now_ms)
{
    const struct tally *t = &round->tally;
    struct rl_lease *lease = round->lease;
    enum verdict v;
    if (round->gate >= 0 && !slot_pending(&round->slot[round->gate])) {
        round_ref(round);
        round_pass_gate(round, now_ms);
        round_unref(round);
        if (round->outcome)
            return;
    }
    switch (round->kind) {
    case ROUND_ACQUIRE:
    case ROUND_HANDOVER:
        v = lease_fenced(lease) ? fence_judge(round, now_ms) : quorum_vote(t);
        if (v == UNDECIDED)
            return;
        round_ref(round);    /* the lease goes with its last round */
        round_end(round, round->kind == ROUND_ACQUIRE
                             ? lease_acquired(lease, round, v, now_ms)
                             : handover_decided(lease, round, v, now_ms));
        if (round->outcome != RL_GRANTED)
            release_end(lease, now_ms);
        round_unref(round);
        break;
    case ROUND_EXTEND:
        if ((v = quorum_extend(t)) == UNDECIDED)
            return;
        round_ref(round);
        round_end(round, lease_extended(lease, round, v, now_ms));
        if (round == lease->renewal)
            watchdog_renewed(lease, round->outcome, now_ms);
        for (int i = 0; round->outcome == RL_GRANTED && i < round->core->n; i++) {
            if (round->slot[i].state == SLOT_ANSWERED)
                round_heal(round, i, round->slot[i].vote, now_ms);
        }
        if (round->outcome == RL_LOST)
            watchdog_disowned(lease, t, now_ms);
        round_unref(round);
        break;
    case ROUND_RELEASE:
        if ((v = quorum_release(t)) != UNDECIDED)
            round_end(round, release_outcome(lease, v));
        break;
    case ROUND_ASK:
        if (ask_verdict(round) != UNDECIDED)
            round_end(round, quorum_answered(t) ? RL_GRANTED : RL_NO_QUORUM);
        break;
    case ROUND_CONFIRM:
    case ROUND_ASK_ALL:
    case ROUND_PROBE:
        if (!t->pending)
            round_end(round, RL_GRANTED);
        break;
    case ROUND_HEAL:
    case ROUND_SLEEP:
        break;
    }
}

static void round_set_timer(struct rl_round *round)
{
    int64_t due_ms = round->cap_ms;
    if (round->grace_ms && !round->token && round->grace_ms < due_ms)
        due_ms = round->grace_ms;
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        if (slot_pending(slot) && slot->state != SLOT_IDLE && slot->deadline_ms < due_ms)
            due_ms = slot->deadline_ms;
    }
    timer_set(&round->core->timers, &round->timer, due_ms);
}

/* ---- asking ---- */

/* Nobody waits for a renewal, and another one would only queue up behind it: a server
 * that has thousands of them to answer gets the time that is between two of them. */
int64_t round_answer_due_ms(const struct rl_round *round, int i, int64_t now_ms)
{
    int64_t timeout_ms = round->core->nodes[i].config->timeout_ms;
    int64_t share_ms = round->unattended ? round->lease_ms / RENEWAL_SHARE : 0;
    return now_ms + (share_ms > timeout_ms ? share_ms : timeout_ms);
}

/* Queues the round's command. 0, or why not: rl_code. */
static int put_call(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    struct node *nd = &core->nodes[i];
    struct marker marker;
    int acquire = round->kind == ROUND_ACQUIRE;
    guard_visit(core, i, now_ms);
    if (round->kind == ROUND_PROBE)
        return node_probe(nd, round, now_ms);
    if (acquire && guard_objects(core, i, 1, now_ms))
        return RL_GUARDED;
    const struct marker *behind = NULL;
    if (round->kind == ROUND_RELEASE && lease_fenced(round->lease))
        return fence_release(round, i, now_ms);
    if (round->lease && lease_fenced(round->lease))
        behind = guard_run(core, i, acquire, &marker);
    else if (round_takes(round) && round->kind != ROUND_HANDOVER)
        behind = guard_marker(core, i, acquire, &marker);
    return node_call(nd, round->script, round->cmd, behind, round, now_ms);
}

void round_send(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    struct node *nd = &core->nodes[i];
    struct slot *slot = &round->slot[i];
    int failed = put_call(round, i, now_ms);
    if (failed) {
        round_miss(round, i, failed, now_ms);
        return;
    }
    round_ref(round);
    core->want_write |= link_bit(i);
    if (!core->node_timers[i].at)
        timer_set(&core->timers, &core->node_timers[i], health_give_up_ms(nd));
    if (slot->state == SLOT_IDLE || slot->state == SLOT_WAITING) {
        slot->state = SLOT_SENT;
        slot->deadline_ms = round_answer_due_ms(round, i, now_ms);
        if (round->timer.at && slot->deadline_ms < round->timer.due_ms)
            timer_set(&core->timers, &round->timer, slot->deadline_ms);
    }
    if (round_takes(round))
        round->lease->touched |= bit(i);
    if (round->kind == ROUND_RELEASE)
        round->lease->releasing |= bit(i);
    else if (round->lease)
        lease_may_live(round->lease, now_ms + round->lease_ms);
}

static void slot_begin(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    struct node *nd = &core->nodes[i];
    /* Whoever hangs is asked for nothing new; what it has of ours it must still get. */
    int touched = round->lease && round->lease->touched & bit(i);
    if (nd->state == NODE_READY) {
        int spared = touched ? RL_OK : state_spares(core, i, now_ms);
        if (spared)
            round_miss(round, i, spared, now_ms);
        else
            round_send(round, i, now_ms);
        return;
    }
    if (nd->state == NODE_DOWN && now_ms < nd->retry_ms) {
        round_miss(round, i, nd->code, now_ms);
        return;
    }
    state_reconnect(core, i, now_ms);
    /* A node that was fine until now may take its time; one that failed before must not
     * cost more than an answer. */
    round->slot[i].state = SLOT_WAITING;
    round->slot[i].deadline_ms =
        nd->failures ? now_ms + nd->config->timeout_ms : nd->deadline_ms;
}

static void ask_all(struct rl_round *round, int64_t now_ms)
{
    for (int i = 0; i < round->core->n; i++) {
        if (round->slot[i].state == SLOT_IDLE &&
            (!round->outcome || round->kind == ROUND_RELEASE))   /* that goes to all */
            slot_begin(round, i, now_ms);
    }
}

void round_begin(struct rl_round *round, int64_t now_ms)
{
    round->started_ms = now_ms;
    activate(round);
    round_ref(round);        /* it may end while nodes are still being asked */
    if (round->gate >= 0)
        slot_begin(round, round->gate, now_ms);
    else if (round->kind != ROUND_SLEEP)
        ask_all(round, now_ms);
    if (!round->outcome)
        round_set_timer(round);
    round_unref(round);
}

/* The node that was asked first has answered, or will not: on to the others, unless it
 * refused. */
static void round_pass_gate(struct rl_round *round, int64_t now_ms)
{
    const struct slot *first = &round->slot[round->gate];
    round->gate = -1;
    if (first->state == SLOT_ANSWERED && first->vote <= RL_VOTE_ABSENT) {
        struct rl_lease *lease = round->lease;
        lease->acquire = NULL;
        round_end(round, RL_HELD);
        release_end(lease, now_ms);
    } else {
        ask_all(round, now_ms);
        if (!round->outcome)
            round_set_timer(round);
    }
}

static void push_done(struct rl_round *round)
{
    struct core *core = round->core;
    round->next_done = NULL;
    if (core->done_last)
        core->done_last->next_done = round;
    else
        core->done = round;
    core->done_last = round;
    round_ref(round);
}

void round_notify(rl_round *round)
{
    if (round->notify)
        return;
    round->notify = 1;
    if (round->outcome)
        push_done(round);
}

rl_round *round_next(struct core *core)
{
    struct rl_round *round = core->done;
    if (!round)
        return NULL;
    core->done = round->next_done;
    if (!core->done)
        core->done_last = NULL;
    round_unref(round);      /* the caller's handle holds it */
    return round;
}

void round_end(struct rl_round *round, int outcome)
{
    assert(!round->outcome && outcome);
    for (int i = 0; i < round->core->n; i++) {
        if (round->slot[i].state == SLOT_WAITING)
            round->slot[i].state = SLOT_IDLE;
    }
    timer_clear(&round->core->timers, &round->timer);
    round->outcome = outcome;
    if (round->confirm)
        fence_end(round);
    if (round->subscription)
        subscription_leave(round);
    void *box = atomic_exchange(&round->post, ROUND_POSTED);
    round->box = box == ROUND_POSTED ? NULL : box;
    if (round->notify || round->box)
        push_done(round);
    deactivate(round);
}

/* ---- no answer ---- */

void round_miss(struct rl_round *round, int i, int code, int64_t now_ms)
{
    struct slot *slot = &round->slot[i];
    if (round->outcome || !slot_pending(slot))
        return;
    round_count(round, i, SLOT_MISSING, &round->tally.missing);
    slot->code = (uint8_t)code;
    if (code == RL_TIMEOUT)
        round->core->nodes[i].stats.timeouts++;
    round_decide(round, now_ms);
}

void round_on_timer(struct rl_round *round, int64_t now_ms)
{
    if (round->kind == ROUND_SLEEP) {
        round_end(round, RL_GRANTED);
        return;
    }
    round_ref(round);
    for (int i = 0; i < round->core->n; i++) {
        struct slot *slot = &round->slot[i];
        int late = slot->state != SLOT_IDLE && slot->deadline_ms <= now_ms;
        if (slot_pending(slot) && (late || round->cap_ms <= now_ms))
            round_miss(round, i, RL_TIMEOUT, now_ms);
    }
    if (!round->outcome && round->grace_ms)
        round_decide(round, now_ms);
    if (!round->outcome)
        round_set_timer(round);
    round_unref(round);
}
