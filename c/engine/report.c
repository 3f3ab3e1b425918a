/* report.c - the public functions that report on a client and its servers. */
#include "engine/engine.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/eligibility/eligibility.h"
#include "core/eligibility/guard.h"
#include "core/leases/lease.h"
#include "core/rounds/teach.h"

const char *rl_code_name(int code)
{
    static const char *const names[RL_CODES] = {
#include "code_words.h"
    };
    return code >= 0 && code < RL_CODES ? names[code] : "unknown";
}

const char *rl_why_name(int why)
{
    static const char *const names[RL_WHYS] = {
#include "why_words.h"
    };
    return why >= 0 && why < RL_WHYS ? names[why] : "unknown";
}

uintptr_t rl_noted(rl_client *c, int32_t renewed, int64_t k)
{
    if (!c)
        return 0;
    engine_lock(c);
    const struct rl_lease *const *ring = renewed ? c->core.renewed : c->core.lost;
    int64_t ago = (renewed ? c->core.renewals : c->core.losses) - k;
    const struct rl_lease *lease =
        k > 0 && ago >= 0 && ago < NOTED_MAX ? ring[(k - 1) % NOTED_MAX] : NULL;
    engine_unlock(c);
    return (uintptr_t)lease;
}

double rl_look(const rl_client *c, double *changes)
{
    *changes = c ? (double)(c->core.losses + c->core.renewals + c->core.node_changes) : 0;
    return (double)rl_now_ms();
}

void rl_get_counters(rl_client *c, rl_counters *out)
{
    memset(out, 0, sizeof(*out));
    if (!c)
        return;
    engine_lock(c);
    const struct core *core = &c->core;
    *out = (rl_counters){.losses = core->losses,
                         .renewals = core->renewals,
                         .node_changes = core->node_changes,
                         .auth_failures = core->auth_failures,
                         .owed = core->owing_len,
                         .forgone = core->forgone};
    engine_unlock(c);
}

void rl_node_get_info(rl_client *c, int i, rl_node_info *out)
{
    memset(out, 0, sizeof(*out));
    if (!c)
        return;
    engine_lock(c);
    const struct node *nd = &c->core.nodes[i];
    const struct info *info = &nd->info;
    int64_t now_ms = rl_now_ms();
    out->stats = nd->stats;
    out->stats.in_flight = (int32_t)nd->queue_len;
    out->stats.ready = nd->state == NODE_READY;
    out->stats.code = out->stats.ready ? RL_OK : nd->code;
    out->lost = nd->lost;
    out->server = out->stats.ready || info->server.known ? info->server : nd->last;
    out->server.uptime_s += out->stats.ready ? (now_ms - nd->info_ms) / 1000 : 0;
    out->unverified = out->stats.ready && !info->replid[0];
    out->heard_ms = nd->answered_ms;
    out->certificate_ends_s = nd->ends_s;
    memcpy(out->list, c->core.hash, sizeof(out->list) - 1);
    out->why = nd->why;
    memcpy(out->text, nd->text, sizeof(out->text));
    eligibility_report(&c->core, i, out, now_ms);
    out->same = guard_twin(&c->core, i);
    out->offset_ms -= rl_unix_ms() - now_ms;    /* the wall clock is for reports only */
    engine_unlock(c);
}

void rl_get_times(rl_client *c, int kind, rl_times *out)
{
    memset(out, 0, sizeof(*out));
    if (!c || kind <= 0 || kind >= RL_TIMES_KINDS)
        return;
    engine_lock(c);
    c->timing = 1;
    *out = c->times[kind];
    engine_unlock(c);
}

void rl_hide_passwords(rl_client *c, char *text)
{
    if (!c)
        return;
    engine_lock(c);
    for (int i = 0; i < c->core.n; i++)
        secret_hide(c->core.nodes[i].config->password, text);
    engine_unlock(c);
}

const char *rl_cluster(const rl_client *c, int what)
{
    const char *const texts[] = {c->core.cluster, c->core.hash, c->core.servers};
    return texts[what];
}

int64_t rl_token_limit(rl_client *c)
{
    if (!c)
        return 0;
    RETURN_LOCKED(c, teach_token_limit(&c->core, rl_now_ms()));
}

int64_t rl_guard_left_ms(rl_client *c)
{
    if (!c)
        return -1;
    RETURN_LOCKED(c, eligibility_left_ms(&c->core, rl_now_ms()));
}

/* ---- leases and rounds ---- */

size_t rl_lease_text(rl_lease *lease, int32_t taker, char *out)
{
    struct rl_client *c = client_of(lease->core);
    engine_lock(c);          /* the keeper may replace the cmd */
    assert(lease->refs > 0);
    rl_bytes text = taker ? lease->taker : cmd_value(lease->cmd);
    if (text.len)
        memcpy(out, text.data, text.len);
    engine_unlock(c);
    return text.len;
}

int64_t rl_round_free_in_ms(const rl_round *round)
{
    struct rl_client *c = client_of(round->core);
    int64_t extra[RL_MAX_NODES];
    int known = 0;
    engine_lock(c);
    for (int i = 0; i < c->core.n; i++) {
        const struct slot *slot = &round->slot[i];
        if (slot->state != SLOT_ANSWERED || (slot->vote <= 0 && slot->extra < 0))
            continue;
        extra[known++] = slot->vote > 0 ? 0 : slot->extra;
    }
    engine_unlock(c);
    return quorum_nth_ms(extra, known, quorum_with(round->tally.n, round->tally.margin));
}
