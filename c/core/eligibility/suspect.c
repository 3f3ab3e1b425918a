#include "core/eligibility/suspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECONDS_MAX = 12,             /* digits: more are no time, and would overflow */
    SOON_MS = 3000,               /* samples further apart do not tell when a step was */
    TOGETHER_MS = 1500,           /* steps seen within that time may be our own clock's */
    OPEN_MS = 5000                /* within that time the other servers answer, if at all */
};

/* By how much the node's clock was stepped forward while present leases may have been
 * granted. */
static int64_t forward_ms(const struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    return g->steps && now_ms - g->stepped_ms <= state_guard_ms(core) ? g->forward_ms : 0;
}

/* By how much, at least, a majority of the clocks was stepped forward. It makes no
 * difference if our own clock stood still instead. */
static int64_t majority_forward_ms(const struct core *core, int64_t now_ms)
{
    int64_t back[RL_MAX_NODES];       /* negative: the largest come first */
    for (int i = 0; i < core->n; i++)
        back[i] = -forward_ms(core, i, now_ms);
    return -quorum_nth_ms(back, core->n, quorum_size(core->n));
}

/* The nodes whose clocks were not stepped: we compared them before node i's step and after. */
static uint32_t steady(const struct core *core, int i)
{
    const struct guard *g = &core->guards[i], *other = core->guards;
    uint32_t stepped = NODES_WHERE(core, k, other[k].steps && other[k].step_ms > 0 &&
                                       other[k].asked_ms >= g->asked_ms - TOGETHER_MS);
    return ~stepped & NODES_WHERE(core, k, k != i && other[k].since_ms <= g->before_ms &&
                                      other[k].compared_ms >= g->asked_ms);
}

/* A step forward is the server's if a majority of all clocks saw none. Otherwise our own
 * clock may have stood still, also together with that of a server beside us. */
static void decide(struct core *core, int64_t now_ms)
{
    for (int i = 0; i < core->n; i++) {
        struct guard *g = &core->guards[i];
        if (g->step != STEP_OPEN)
            continue;
        if (core->marker && state_majority(core, steady(core, i))) {
            g->step = STEP_COUNTS;
            timer_set(&core->timers, &core->health, now_ms);
        } else if (now_ms - g->stepped_ms > OPEN_MS) {
            g->step = STEP_OURS;
        }
    }
}

/* Compares the clock of a server with ours. Returns by how much it was stepped. */
static int64_t compare(struct core *core, int i, int64_t sent_ms, int64_t server_ms,
                       int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    const char *run_id = core->nodes[i].info.server.run_id;
    if (strcmp(g->run_id, run_id)) {           /* a restart, or another server */
        g->clock.known = 0;
        snprintf(g->run_id, sizeof(g->run_id), "%s", run_id);
    }
    int soon = g->clock.known && now_ms - g->sampled_ms <= SOON_MS;
    int64_t tolerance_ms = quorum_drift_ms(core->lease_ms, core->drift_ppm);
    int64_t step_ms = clock_sample(&g->clock, sent_ms, now_ms, server_ms,
                                   core->drift_ppm, tolerance_ms);
    if (!soon)
        g->since_ms = sent_ms;
    if (soon && step_ms > 0) {
        g->step = STEP_OPEN;
        g->before_ms = g->sampled_ms;
    }
    g->sampled_ms = now_ms;
    g->compared_ms = sent_ms;
    return step_ms;
}

int64_t suspect_answered(struct core *core, int i, const struct request *request,
                     int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    const struct reply *reply = &core->nodes[i].wire.reply;
    if (reply->type != REPLY_ARRAY || reply->text_len > SECONDS_MAX || !reply->has_second ||
        reply->second_len > 6)
        return -1;
    char us[8] = "";
    memcpy(us, reply->second, reply->second_len);
    int64_t server_ms = atoll(reply->text) * 1000 + atoll(us) / 1000, lost_ms = -1;
    int64_t step_ms = compare(core, i, request->sent_ms, server_ms, now_ms);
    if (step_ms) {
        int64_t before_ms = majority_forward_ms(core, now_ms);
        g->forward_ms = forward_ms(core, i, now_ms) + (step_ms > 0 ? step_ms : 0);
        g->step_ms = step_ms;
        g->stepped_ms = now_ms;
        g->asked_ms = request->sent_ms;
        g->stepped_at_ms = server_ms;
        g->steps++;
        core->node_changes++;
        if (core->n > 1 || core->marker)
            g->suspect_ms = now_ms + state_guard_ms(core);
        lost_ms = step_ms > 0 ? majority_forward_ms(core, now_ms) - before_ms : -1;
    }
    decide(core, now_ms);
    return lost_ms;
}
