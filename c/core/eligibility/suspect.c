/* suspect.c - nodes whose clock was stepped. */
#include "core/eligibility/suspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECONDS_MAX = 12 };        /* digits: more are no time, and would overflow */

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
    return -quorum_free_in_ms(back, core->n, quorum_size(core->n));
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
    int64_t server_ms = atoll(reply->text) * 1000 + atoll(us) / 1000;
    const char *run_id = core->nodes[i].info.run_id;
    if (strcmp(g->run_id, run_id)) {           /* a restart, or another server */
        g->clock.known = 0;
        snprintf(g->run_id, sizeof(g->run_id), "%s", run_id);
    }
    int64_t tolerance_ms = quorum_drift_ms(core->lease_ms, core->drift_ppm);
    int64_t step_ms = clock_sample(&g->clock, request->sent_ms, now_ms, server_ms,
                                   core->drift_ppm, tolerance_ms);
    if (!step_ms)
        return -1;
    int64_t before_ms = majority_forward_ms(core, now_ms);
    g->forward_ms = forward_ms(core, i, now_ms) + (step_ms > 0 ? step_ms : 0);
    g->step_ms = step_ms;
    g->stepped_ms = now_ms;
    g->steps++;
    core->node_changes++;
    if (core->n > 1 || core->marker)
        g->suspect_ms = now_ms + state_guard_ms(core);
    return step_ms > 0 ? majority_forward_ms(core, now_ms) - before_ms : -1;
}
