#include "core/close.h"

#include <stdlib.h>
#include <string.h>

#include "core/eligibility/guard.h"
#include "core/leases/release.h"
#include "core/leases/watchdog.h"
#include "core/rounds/round.h"
#include "core/rounds/subscription.h"
#include "node/health.h"

static void end_rounds(struct core *core)
{
    while (core->active) {
        struct rl_lease *lease = core->active->lease;
        if (lease && lease->acquire == core->active)
            lease->acquire = NULL;
        else if (lease && lease->renewal == core->active)
            lease->renewal = NULL;
        round_end(core->active, RL_CLOSED);
    }
}

/* Ends all rounds, voids all leases, forgets owed releases. */
static void end_all(struct core *core)
{
    core->epoch++;
    timer_clear(&core->timers, &core->pace.timer);
    end_rounds(core);
    while (core->owing)
        lease_forget(core->owing);
    while (core->held) {
        watchdog_lose(core->held, RL_LOSS_CLOSED);
        lease_forget(core->held);
    }
}

/* Ends a connection, and drops its unanswered requests. */
static void cut(struct core *core, int link, int code, const char *text)
{
    struct node *nd = &core->nodes[link];
    struct request request;
    int written;
    if (nd->state != NODE_DOWN)
        node_down(nd, code, text, 0, 0);
    if (nd->subscriber)
        subscription_lost(core, link - core->n);
    while (node_abandon(nd, &request, &written)) {
        if (request.kind == REQUEST_CALL)
            round_unref(request.owner);
    }
}

void close_begin(struct core *core, int64_t now_ms)
{
    struct rl_round *next;
    if (!core->closed)
        guard_leave(core, now_ms);
    core->closed = 1;
    for (struct rl_round *round = core->active; round; round = next) {
        next = round->next;
        struct rl_lease *lease = round->lease;
        if (!lease || lease->acquire != round)
            continue;
        lease->acquire = NULL;
        lease->refs++;
        round_end(round, RL_CLOSED);
        release_end(lease, now_ms);
        lease_unref(lease);
    }
    while (core->held) {
        struct rl_lease *lease = core->held;
        lease->refs++;       /* watchdog_delays() may end an orphan */
        if (watchdog_delays(lease, now_ms)) {
            release_leave(lease, RL_CLOSED);
        } else if (lease->list == &core->held) {
            watchdog_lose(lease, RL_LOSS_CLOSED);
            release_end(lease, now_ms);
        }
        lease_unref(lease);
    }
    end_rounds(core);
}

uint32_t close_unreleased(const struct core *core, int64_t since_ms)
{
    uint32_t nodes = 0;
    for (const struct rl_lease *l = core->owing; l; l = l->next) {
        if (l->release->started_ms >= since_ms)
            nodes |= l->owed & l->touched;
    }
    return nodes;
}

uint32_t close_unanswered(const struct core *core, int64_t since_ms)
{
    return NODES_WHERE(core, i, core->nodes[i].state == NODE_READY &&
                           health_owes_since(&core->nodes[i], since_ms));
}

void close_finish(struct core *core, int64_t now_ms)
{
    core->over = 1;
    close_begin(core, now_ms);
    end_all(core);
}

void close_void(struct core *core)
{
    end_all(core);
    for (int i = 0; i < 2 * core->n; i++) {
        cut(core, i, RL_REFUSED, "not connected yet after fork");
        core->nodes[i].failures = 0;
        core->nodes[i].retry_ms = 0;
        timer_clear(&core->timers, &core->node_timers[i]);
    }
    timer_clear(&core->timers, &core->health);
    core->want_close = core->want_connect = core->want_write = 0;
}

void close_free(struct core *core)
{
    end_all(core);
    timer_clear(&core->timers, &core->health);
    while (round_next(core))
        continue;
    for (int i = 0; core->nodes && i < 2 * core->n; i++) {
        cut(core, i, RL_CLOSED, "closed");
        node_free(&core->nodes[i]);
    }
    free(core->nodes);
    free(core->node_timers);
    free(core->guards);
    while (core->lease_pool) {
        struct rl_lease *lease = core->lease_pool;
        core->lease_pool = lease->next;
        free(lease);
    }
    while (core->round_pool) {
        struct rl_round *round = core->round_pool;
        core->round_pool = round->next;
        free(round);
    }
    for (int i = 0; i < core->scripts.count; i++)
        free(core->scripts.item[i]);
    free(core->scripts.item);
    cmd_pool_free(&core->cmds);
    timers_free(&core->timers);
    timers_free(&core->pace.waiting);
    memset(core, 0, sizeof(*core));
}
