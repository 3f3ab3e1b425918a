/* core.c - connections of nodes, timers, and the dispatch of events. */
#include "core/core.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/close.h"
#include "core/eligibility/guard.h"
#include "core/eligibility/suspect.h"
#include "core/leases/release.h"
#include "core/leases/watchdog.h"
#include "core/rounds/answer.h"
#include "core/rounds/subscription.h"
#include "core/rounds/teach.h"
#include "node/health.h"

int core_init(struct core *core, const struct node_config *configs, int n,
              int32_t drift_ppm, uint64_t seed)
{
    assert(n >= 1 && n <= RL_MAX_NODES);
    memset(core, 0, sizeof(*core));
    core->drift_ppm = drift_ppm;
    core->random = seed | 1;
    core->moment_ms = (int64_t)(state_random(core) % STATE_HOLDS_MS);
    int links = 2 * n;
    core->n = n;
    core->nodes = calloc((size_t)links, sizeof(*core->nodes));
    core->node_timers = calloc((size_t)links, sizeof(*core->node_timers));
    core->guards = calloc((size_t)n, sizeof(*core->guards));
    core->health.kind = TIMER_HEALTH;
    core->pace.timer.kind = TIMER_PACE;
    core->tell = -1;
    guard_init(core, NULL, NULL, 0, 0, NULL, "");
    int ok = core->nodes && core->node_timers && core->guards &&
             state_add_timers(core, (uint32_t)links + 2) == 0;
    for (int k = 0; ok && k < links; k++) {
        core->node_timers[k].kind = TIMER_NODE;
        ok = node_init(&core->nodes[k], &configs[k % n], &core->scripts, k) == 0;
        core->nodes[k].subscriber = k >= n;
    }
    if (ok)
        return 0;
    close_free(core);
    return -1;
}

/* ---- scripts ---- */

int core_script(struct core *core, const char *body, size_t len, int64_t now_ms)
{
    struct scripts *s = &core->scripts;
    for (int i = 0; i < s->count; i++) {
        if (s->item[i]->len == len && !memcmp(s->item[i]->body, body, len))
            return i;
    }
    if (s->count == INT16_MAX)           /* request.script */
        return -1;
    struct script **item = realloc(s->item, (size_t)(s->count + 1) * sizeof(*item));
    if (!item)
        return -2;
    s->item = item;
    struct script *new =
        calloc(1, sizeof(*new) + (size_t)core->n * sizeof(new->at[0]) + len + 1);
    if (!new)
        return -2;
    new->body = memcpy(&new->at[core->n], body, len);
    new->len = len;
    item[s->count] = new;
    for (int i = 0; i < core->n; i++) {
        /* Loading may fail: EVAL is used instead. */
        if (core->nodes[i].state >= NODE_HANDSHAKE &&
            node_load(&core->nodes[i], s->count, now_ms) == 0)
            core->want_write |= link_bit(i);
    }
    return s->count++;
}

/* ---- connections ---- */

/* True: a subscription, a release or a round waits for node i to be ready. */
static int node_awaited(const struct core *core, int i)
{
    if (i >= core->n)
        return core->subscriptions_len > 0;
    if (core->nodes[i].stats.owed)
        return 1;
    for (const struct rl_round *r = core->active; r; r = r->next) {
        if (r->slot[i].state == SLOT_WAITING)
            return 1;
    }
    return 0;
}

/* While anything is held, every server is wanted: one that lost its memory must hear that
 * it had one, and one whose clock was stepped must be noticed. */
static int node_wanted(const struct core *core, int i)
{
    return node_awaited(core, i) || (i < core->n && (core->held || guard_idles(core)));
}

void core_waits_for(struct core *core, int i, const char *text, int tries, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    nd->waits_for = text;
    nd->share_ms = now_ms + (nd->deadline_ms - now_ms) / tries;
    timer_set(&core->timers, &core->node_timers[i], nd->share_ms);
}

void core_retry(struct core *core, int i, int64_t now_ms)
{
    for (int k = i; k < 2 * core->n; k += core->n) {
        core->nodes[k].failures = 0;
        core->nodes[k].retry_ms = now_ms;
        if (node_wanted(core, k))
            state_reconnect(core, k, now_ms);
    }
}

/* Gives up a connection. */
static void core_cut(struct core *core, int i, int code, const char *text, int64_t now_ms)
{
    core->want_close |= link_bit(i);
    core_lost(core, i, code, text, now_ms);
}

/* What a conversation begins with is to be written. 1; or 0: out of memory (failed), given up. */
static int core_greets(struct core *core, int i, int failed, int64_t now_ms)
{
    if (failed)
        core_cut(core, i, RL_NOMEM, "out of memory", now_ms);
    else
        core->want_write |= link_bit(i);
    return !failed;
}

void core_connected(struct core *core, int i, int64_t now_ms)
{
    core_greets(core, i, node_connected(&core->nodes[i], now_ms) < 0, now_ms);
}

void core_lost(struct core *core, int i, int code, const char *text, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    int was_ready = nd->state == NODE_READY;
    int news = was_ready || nd->lost != code;
    if (nd->state == NODE_DOWN)
        return;
    /* While a majority is away, holders come back in time to renew. */
    uint32_t others = NODES_WHERE(core, k, k != i && core->nodes[k].state == NODE_READY);
    int urgent = core->held && !state_majority(core, others) &&
                 core->lease_ms < 8 * NODE_BACKOFF_MAX_MS;
    int64_t often_ms = core->lease_ms > 16 ? core->lease_ms / 8 : 2;     /* never without a pause */
    nd->backoff_ms = urgent ? often_ms : NODE_BACKOFF_MAX_MS;
    node_down(nd, code, text, now_ms, state_random(core));
    nd->lost = code;
    core->auth_failures += code == RL_AUTH;
    timer_clear(&core->timers, &core->node_timers[i]);
    core->want_write &= ~link_bit(i);
    core->want_connect &= ~link_bit(i);

    struct request request;
    int written;
    if (nd->subscriber)
        subscription_lost(core, i - core->n);
    else if (news)
        core->node_changes++;
    while (node_abandon(nd, &request, &written)) {
        if (request.kind != REQUEST_CALL)
            continue;
        answer_broken(request.owner, i, written, now_ms);
        round_unref(request.owner);
    }
    /* Rounds that waited for this connection, or have resent often enough, get no vote.
     * Only now that the queue is empty: the end of a round may begin to connect again. */
    struct rl_round *next;
    for (struct rl_round *round = core->active; i < core->n && round; round = next) {
        const struct slot *slot = &round->slot[i];
        next = round->next;
        if (slot->state == SLOT_WAITING && (!was_ready || slot->deadline_ms <= now_ms))
            round_miss(round, i, code, now_ms);
    }
    if (node_awaited(core, i))
        state_reconnect(core, i, now_ms);
    else if (i < core->n)
        state_reconnect_for_holds(core, i, now_ms);
}

static void core_ready(struct core *core, int i, int64_t now_ms)
{
    int silent = core->nodes[i].lost == RL_TIMEOUT;
    core->nodes[i].lost = RL_OK;
    core->node_changes++;
    /* Owed releases go first: an attempt must not meet leftovers of the one before. */
    release_pay_all(core, i, silent, now_ms);
    struct rl_round *next;
    for (struct rl_round *round = core->active; round; round = next) {
        next = round->next;
        if (round->slot[i].state == SLOT_WAITING)
            round_send(round, i, now_ms);
    }
}

/* Connects anew to node i, whose handshake is done. Rounds that wait for it wait on. */
static void core_connect_again(struct core *core, int i, int64_t now_ms)
{
    core->want_close |= link_bit(i);
    node_leave(&core->nodes[i]);
    state_connect(core, i, now_ms);
    for (struct rl_round *round = core->active; round; round = round->next) {
        if (round->slot[i].state == SLOT_WAITING)
            round->slot[i].deadline_ms = core->nodes[i].deadline_ms;
    }
}

/* Gives up a connection, for the reason that the node says. */
static void core_drop(struct core *core, int i, int64_t now_ms)
{
    char text[RL_TEXT_MAX];
    memcpy(text, core->nodes[i].text, sizeof(text));
    core_cut(core, i, core->nodes[i].code, text, now_ms);
}

/* Handles a node's answer about itself. 1; or 0: the connection must be given up. */
static int core_answered(struct core *core, int i, const struct request *request,
                     int64_t now_ms)
{
    if (request->kind != REQUEST_TIME)
        return guard_answered(core, i, request, now_ms);
    int64_t lost_ms = suspect_answered(core, i, request, now_ms);
    if (lost_ms >= 0)
        watchdog_hurry(core, lost_ms, now_ms);
    return 1;
}

void core_feed(struct core *core, int i, const char *data, size_t len, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    struct request request;
    if (nd->state < NODE_HANDSHAKE)
        return;
    if (wire_feed(&nd->wire, data, len) < 0) {
        core_cut(core, i, RL_NOMEM, "out of memory", now_ms);
        return;
    }
    for (;;) {
        switch (node_next(nd, &request, now_ms)) {
        case NODE_IDLE:
            return;
        case NODE_HEARD:
            if (!core_greets(core, i, node_greet(nd, now_ms) < 0, now_ms))
                return;
            break;
        case NODE_UP:
            if (nd->subscriber) {
                node_ready(nd, now_ms);
                subscription_tell(core, i - core->n, now_ms);
            } else if (!guard_is_alone(core, i, now_ms)) {
                core_connect_again(core, i, now_ms);
                return;
            } else if (guard_up(core, i, now_ms)) {
                core_ready(core, i, now_ms);
            } else {
                release_by_twin(core, i, guard_twin(core, i), now_ms);
                core_drop(core, i, now_ms);
                return;
            }
            break;
        case NODE_TOLD:
            if (!core_answered(core, i, &request, now_ms)) {
                core_drop(core, i, now_ms);
                return;
            }
            break;
        case NODE_MESSAGE:
            if (subscription_message(core, i - core->n, &nd->wire.reply, now_ms) < 0) {
                node_refuse(nd, RL_PROTOCOL, "it sent messages without a subscription");
                core_drop(core, i, now_ms);
                return;
            }
            break;
        case NODE_ANSWER:
            answer_take(request.owner, i, &nd->wire.reply, request.by_sha, now_ms);
            round_unref(request.owner);
            break;
        case NODE_ALONE:
            answer_alone(request.owner, i, now_ms);
            round_unref(request.owner);
            break;
        case NODE_FAILED:
            core_drop(core, i, now_ms);
            return;
        }
    }
}

struct buf *core_out(struct core *core, int i)
{
    return &core->nodes[i].out;
}

/* ---- time ---- */

static void node_on_timer(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    if (nd->state == NODE_DOWN) {
        if (node_wanted(core, i))
            state_reconnect(core, i, now_ms);
        return;
    }
    int64_t give_up_ms = health_give_up_ms(nd);
    if (give_up_ms > now_ms) {
        if (nd->state == NODE_CONNECTING && nd->share_ms <= now_ms)
            core->want_connect |= link_bit(i);
        timer_set(&core->timers, &core->node_timers[i], give_up_ms);
        return;
    }
    core_cut(core, i, RL_TIMEOUT,
             nd->state == NODE_READY        ? "no answer"
             : nd->state == NODE_CONNECTING ? nd->waits_for
                                            : "no answer to the handshake",
             now_ms);
}

int64_t core_due_ms(const struct core *core)
{
    return timers_due_ms(&core->timers);
}

int core_busy(const struct core *core)
{
    const struct node *nodes = core->nodes;
    return core->unattended ||
           NODES_WHERE(core, i, buf_len(&nodes[i].out) || (core->strays && nodes[i].queue_len) ||
                           (nodes[i].state != NODE_DOWN && nodes[i].state != NODE_READY &&
                            node_wanted(core, i)));
}

int core_unread(const struct core *core)
{
    return NODES_WHERE(core, i, core->nodes[i].queue_len) || core_busy(core);
}

int core_timing(const struct core *core)
{
    return NODES_WHERE(core, i, core->nodes[i].state == NODE_READY &&
                           (core->nodes[i].timing > 0 || core->guards[i].asked)) != 0;
}

int core_owes_away(const struct core *core)
{
    return NODES_WHERE(core, i, core->nodes[i].state != NODE_READY &&
                           core->nodes[i].stats.owed) != 0;
}

static void lease_on_timer(struct rl_lease *lease, int64_t now_ms)
{
    if (lease_owing(lease))
        release_on_timer(lease, now_ms);
    else
        watchdog_on_timer(lease, now_ms);
}

void core_tick(struct core *core, int64_t now_ms)
{
    struct timer *t;
    core->late_ms = state_late_ms(core, now_ms);
    while ((t = timers_pop(&core->timers, now_ms))) {
        switch (t->kind) {
        case TIMER_ROUND:
            round_on_timer(TIMER_OWNER(t, struct rl_round, timer), now_ms);
            break;
        case TIMER_LEASE:
            lease_on_timer(TIMER_OWNER(t, struct rl_lease, timer), now_ms);
            break;
        case TIMER_SUBSCRIPTION:
            subscription_hint(TIMER_OWNER(t, struct rl_subscription, timer));
            break;
        case TIMER_HEALTH:
            guard_on_timer(core, now_ms);
            teach_look(core, now_ms);
            break;
        case TIMER_PACE:
            break;           /* see below */
        case TIMER_NODE:
            node_on_timer(core, (int)(t - core->node_timers), now_ms);
            break;
        }
    }
    watchdog_go_on(core, now_ms);
    core->late_ms = 0;
}
