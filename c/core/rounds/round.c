#include "core/rounds/round.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/eligibility/guard.h"

/* A renewal's answer may take this part of the lease, as may the pause before the next
 * renewal (watchdog.c). */
enum { RENEWAL_SHARE = 12 };

struct rl_round *round_new(struct core *core, const struct round_kind *kind, int script,
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
        memset(&round->slot[i], 0, offsetof(struct slot, data));    /* SLOT_IDLE */
    round->core = core;
    round->kind = kind;
    round->script = script;
    round->lease = lease;
    round->cmd = cmd;
    round->timer.kind = TIMER_ROUND;
    round->gate = -1;
    round->tally = (struct tally){.n = core->n, .pending = core->n,
                                  .margin = kind->margin ? core->options.margin : 0};
    return round;
}

void round_recycle(struct rl_round *round)
{
    assert(round->refs == 0 && !round->timer.at);
    if (round->cmd)
        cmd_unref(&round->core->cmds, round->cmd);
    for (int i = 0; i < round->core->n; i++)
        free(round->slot[i].more);
    round->next = round->core->round_pool;
    round->core->round_pool = round;
}

struct rl_round *round_ref(struct rl_round *round)
{
    if (round->refs++ == 0 && round->kind->used)
        round->kind->used(round);
    return round;
}

void round_unref(struct rl_round *round)
{
    assert(round->refs > 0);
    if (--round->refs > 0)
        return;
    if (round->kind->unused)
        round->kind->unused(round);
    else
        round_recycle(round);
}

struct rl_round *round_handle(struct rl_round *round)
{
    round->core->handles++;
    return round_ref(round);
}

void round_free(rl_round *round)
{
    round->core->handles--;
    if (round->kind->pause && !round->outcome) {
        round->notify = 0;
        round_end(round, RL_CANCELLED);    /* else it would last until its time */
    }
    round_unref(round);
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

uint32_t round_yes(const struct rl_round *round)
{
    return NODES_WHERE(round->core, i, round_is_yes(&round->slot[i]));
}

uint32_t round_alike(const struct rl_round *round, int i)
{
    const struct slot *a = &round->slot[i], *b = round->slot;
    return NODES_WHERE(round->core, k, a->state == SLOT_ANSWERED && b[k].state == SLOT_ANSWERED &&
                           b[k].vote == a->vote && b[k].data_len == a->data_len &&
                           !memcmp(round_data(&b[k]), round_data(a), a->data_len));
}

uint32_t round_missing(const struct rl_round *round, int code)
{
    return NODES_WHERE(round->core, i, round->slot[i].state == SLOT_MISSING &&
                           round->slot[i].code == code);
}

int round_no_quorum(const struct rl_round *round)
{
    int n = round->core->n, spare = n - quorum_with(n, round->tally.margin);
    int others = __builtin_popcount(round_missing(round, RL_NOT_A_LOCK));
    if (others > spare)
        return RL_NOT_A_LOCK;
    return others && others + round->tally.pending > spare ? RL_OK : RL_NO_QUORUM;
}

static void set_timer(struct rl_round *round)
{
    int64_t due_ms = round->cap_ms;
    if (round->decide_ms && round->decide_ms < due_ms)
        due_ms = round->decide_ms;
    for (int i = 0; i < round->core->n; i++) {
        const struct slot *slot = &round->slot[i];
        if (slot_pending(slot) && slot->state != SLOT_IDLE && slot->deadline_ms < due_ms)
            due_ms = slot->deadline_ms;
    }
    timer_set(&round->core->timers, &round->timer, due_ms);
}

/* ---- asking ---- */

/* No caller waits for a renewal, and the next one would only queue up after it: a server
 * with thousands of renewals to answer gets the time between two of them. */
int64_t round_answer_due_ms(const struct rl_round *round, int i, int64_t now_ms)
{
    int64_t timeout_ms = round->core->nodes[i].config->timeout_ms;
    int64_t share_ms = round->unattended ? round->lease_ms / RENEWAL_SHARE : 0;
    return now_ms + (share_ms > timeout_ms ? share_ms : timeout_ms);
}

int round_call(struct rl_round *round, int i, const char *last_arg, int64_t now_ms)
{
    struct node *nd = &round->core->nodes[i];
    return node_call(nd, round->script, round->cmd, last_arg, round, now_ms);
}

void round_send(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    struct slot *slot = &round->slot[i];
    guard_visit(core, i, now_ms);
    int failed = round->kind->put ? round->kind->put(round, i, now_ms)
                                  : round_call(round, i, NULL, now_ms);
    if (failed) {
        round_miss(round, i, failed, now_ms);
        return;
    }
    round_ref(round);
    state_write(core, i);
    if (slot->state == SLOT_IDLE || slot->state == SLOT_WAITING) {
        slot->state = SLOT_SENT;
        slot->deadline_ms = round_answer_due_ms(round, i, now_ms);
        timer_hasten(&core->timers, &round->timer, slot->deadline_ms);
    }
    if (round->kind->sent)
        round->kind->sent(round, i, now_ms);
}

static void slot_begin(struct rl_round *round, int i, int64_t now_ms)
{
    struct core *core = round->core;
    struct node *nd = &core->nodes[i];
    int insists = round->kind->insists && round->kind->insists(round, i);
    if (nd->state == NODE_READY) {
        int spared = insists ? RL_OK : state_spares(core, i, now_ms);
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
    /* A node that has not failed may take its time; one that has must not cost more
     * time than an answer. */
    round->slot[i].state = SLOT_WAITING;
    round->slot[i].deadline_ms =
        nd->failures ? now_ms + nd->config->timeout_ms : nd->deadline_ms;
}

static void ask_all(struct rl_round *round, int64_t now_ms)
{
    for (int i = 0; i < round->core->n; i++) {
        if (round->slot[i].state == SLOT_IDLE && (!round->outcome || round->kind->to_all))
            slot_begin(round, i, now_ms);
    }
}

void round_decide_at(struct rl_round *round, int64_t at_ms)
{
    round->decide_ms = at_ms;
    timer_hasten(&round->core->timers, &round->timer, at_ms);
}

void round_ask_again(struct rl_round *round, int i, int64_t now_ms)
{
    struct slot *slot = &round->slot[i];
    struct tally *t = &round->tally;
    --*(slot->vote == RL_VOTE_ABSENT ? &t->absent : &t->foreign);
    t->pending++;
    slot->state = SLOT_IDLE;
    free(slot->more);
    slot->more = NULL;
    slot->data_len = 0;
    slot_begin(round, i, now_ms);
}

void round_begin(struct rl_round *round, int64_t now_ms)
{
    round->started_ms = now_ms;
    activate(round);
    round_ref(round);        /* it may end while nodes are still being asked */
    round->at_gate = round->gate >= 0;
    if (round->at_gate)
        slot_begin(round, round->gate, now_ms);
    else if (!round->kind->pause)
        ask_all(round, now_ms);
    if (!round->outcome)
        set_timer(round);
    round_unref(round);
}

/* ---- deciding ---- */

/* The node that was asked first has answered, or will not: asks the others, unless it
 * refused. */
static void pass_gate(struct rl_round *round, int64_t now_ms)
{
    const struct slot *first = &round->slot[round->gate];
    round->at_gate = 0;
    if (round->kind->alone) {
        round_end(round, RL_GRANTED);
    } else if (first->state == SLOT_ANSWERED && first->vote <= RL_VOTE_ABSENT) {
        round->kind->refused(round, now_ms);
    } else {
        ask_all(round, now_ms);
        if (!round->outcome)
            set_timer(round);
    }
}

void round_decide(struct rl_round *round, int64_t now_ms)
{
    if (round->at_gate && !slot_pending(&round->slot[round->gate])) {
        round_ref(round);
        pass_gate(round, now_ms);
        int outcome = round->outcome;
        round_unref(round);
        if (outcome)
            return;
    }
    if (round->kind->decide)
        round->kind->decide(round, now_ms);
}

/* ---- done ---- */

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
    round_unref(round);      /* the caller's handle is another reference */
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
    if (round->kind->ended)
        round->kind->ended(round);
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
    const struct node *node = &round->core->nodes[i];
    if (round->outcome || !slot_pending(slot))
        return;
    round_count(round, i, SLOT_MISSING, &round->tally.missing);
    slot->code = (uint8_t)code;
    slot->why = (uint8_t)(node->code == code ? node->why : RL_WHY_NONE);
    if (code == RL_TIMEOUT)
        round->core->nodes[i].stats.timeouts++;
    round_decide(round, now_ms);
}

void round_on_timer(struct rl_round *round, int64_t now_ms)
{
    if (round->kind->pause) {
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
    if (!round->outcome && round->decide_ms && round->decide_ms <= now_ms) {
        round->decide_ms = 0;
        round_decide(round, now_ms);
    }
    if (!round->outcome)
        set_timer(round);
    round_unref(round);
}
