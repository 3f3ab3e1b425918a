#include "core/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/health.h"

enum {
    DEFAULT_MAX_LEASE_MS = 60000,
    TICK_MS = 1000,               /* between two looks at the nodes, with leases held */
    SLACK_MS = 1000,              /* of the quarantine, beyond max_lease and 1 % of it */
    MARKER_WORD = 40
};

void guard_init(struct core *core, const char *key, const char *script,
                int64_t max_lease_ms, int64_t lease_ms)
{
    core->marker = key;
    core->max_lease_ms = max_lease_ms ? max_lease_ms : DEFAULT_MAX_LEASE_MS;
    core->lease_ms = lease_ms ? lease_ms : core->max_lease_ms;
    core->marker_script = script;
}

/* How long what a server has forgotten may be held still, on our clock. */
static int64_t guard_ms(const struct core *core)
{
    return core->max_lease_ms + (core->max_lease_ms + 99) / 100 + SLACK_MS;
}

/* ---- markers ---- */

/* The run_id that we write into a marker; if the server hides its run_id, as many dashes
 * as the fenced scripts take letters for the run. */
static const char *run_id_of(const struct core *core, int i)
{
    const char *id = core->nodes[i].info.run_id;
    return id[0] ? id : "--------";
}

static void write_marker(const struct core *core, int i, uint64_t nonce, char *to)
{
    int len = snprintf(to, MARKER_MAX, "%s %" PRId64, run_id_of(core, i),
                       core->max_lease_ms);
    if (nonce)
        snprintf(to + len, (size_t)(MARKER_MAX - len), " %016" PRIx64, nonce);
}

struct marker_seen {
    int valid;                    /* of the present run of the server */
    int pending;                  /* the marker has a nonce */
    int64_t max_lease_ms;
};

static struct marker_seen read_marker(const struct core *core, int i, const char *text)
{
    struct marker_seen m = {0};
    char id[MARKER_WORD + 1], nonce[MARKER_WORD + 1];
    int words = sscanf(text, "%40s %" SCNd64 " %40s", id, &m.max_lease_ms, nonce);
    if (words < 2 || m.max_lease_ms <= 0)
        return (struct marker_seen){0};
    const char *run_id = core->nodes[i].info.run_id;
    m.valid = !run_id[0] || !strcmp(id, run_id);
    m.pending = words == 3;
    return m;
}

/* Something was queued for node i, and nobody but us waits for the answer. */
static void asks(struct core *core, int i)
{
    core->want_write |= link_bit(i);
    if (!core->node_timers[i].at)
        timer_set(&core->timers, &core->node_timers[i],
                  health_give_up_ms(&core->nodes[i]));
}

/* Asks node i to replace the marker that was seen. */
static void replace_marker(struct core *core, int i, const char *want, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    const char *script = core->marker_script;
    if (node_set_marker(&core->nodes[i], script, strlen(script), g->marker, want,
                        now_ms) < 0)
        return;                   /* at the next visit */
    g->asked = 1;
    asks(core, i);
}

static void become(struct core *core, int i, enum rl_guard state)
{
    if (core->guards[i].state != (int)state)
        core->node_changes++;
    core->guards[i].state = (int)state;
}

void guard_saw(struct core *core, int i, const char *text, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    struct marker_seen m = read_marker(core, i, text);
    int same = !strcmp(g->marker, text);
    if (!same)
        snprintf(g->marker, sizeof(g->marker), "%s", text);
    if (!same || (m.valid && !m.pending))      /* an unchanged one clears no error */
        g->refused = RL_OK;
    if (m.max_lease_ms != core->max_lease_ms &&
        (m.max_lease_ms > core->max_lease_ms || (m.valid && !m.pending))) {
        g->theirs_ms = m.max_lease_ms;
        become(core, i, RL_GUARD_DISAGREES);
    } else if (m.valid && !m.pending) {
        become(core, i, RL_GUARD_ADMITTED);
    } else if (m.valid && m.pending && m.max_lease_ms == core->max_lease_ms) {
        if (!same || g->state != RL_GUARD_QUARANTINED || !g->until_ms)
            g->until_ms = now_ms + guard_ms(core);
        become(core, i, RL_GUARD_QUARANTINED);
    } else {
        g->until_ms = 0;
        become(core, i, RL_GUARD_QUARANTINED);
    }
}

void guard_passed(struct core *core, int i, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    if (core->marker && g->state != RL_GUARD_ADMITTED)
        guard_saw(core, i, g->want, now_ms);       /* another client admitted the node */
}

/* ---- admission ---- */

/* A majority of the nodes, none of which disagrees, is known by now. */
static int may_admit(const struct core *core)
{
    uint32_t known = 0;
    for (int i = 0; i < core->n; i++) {
        int state = core->guards[i].state;
        if (state == RL_GUARD_DISAGREES)
            return 0;
        if (core->nodes[i].state == NODE_READY &&
            (state == RL_GUARD_ADMITTED || state == RL_GUARD_QUARANTINED))
            known |= bit(i);
    }
    return state_majority(core, known);
}

void guard_visit(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    struct guard *g = &core->guards[i];
    char want[MARKER_MAX];
    if (node_time(nd, now_ms))
        asks(core, i);
    if (g->state != RL_GUARD_QUARANTINED || g->asked || !core->marker)
        return;
    if (!g->until_ms)
        write_marker(core, i, state_random(core), want);
    else if (now_ms >= g->until_ms && may_admit(core))
        write_marker(core, i, 0, want);
    else
        return;
    replace_marker(core, i, want, now_ms);
}

void guard_admit(struct core *core, int force, int64_t seen_ms, int64_t now_ms)
{
    char want[MARKER_MAX];
    for (int i = 0; i < core->n && core->marker; i++) {
        const struct guard *g = &core->guards[i];
        /* A younger one may be of a server that has forgotten what was granted since. */
        int same = g->until_ms && g->until_ms - guard_ms(core) <= seen_ms;
        if (core->nodes[i].state != NODE_READY ||
            !((g->state == RL_GUARD_QUARANTINED && (force || same)) ||
              (g->state == RL_GUARD_DISAGREES && force)))
            continue;
        write_marker(core, i, 0, want);
        replace_marker(core, i, want, now_ms);
    }
}

int guard_twin(const struct core *core, int i)
{
    const char *run_id = core->nodes[i].info.run_id;
    for (int k = 0; k < core->n; k++) {
        const struct node *other = &core->nodes[k];
        if (k != i && other->state == NODE_READY && run_id[0] &&
            !strcmp(other->info.run_id, run_id))
            return k;
    }
    return -1;
}

int guard_same_voter(const struct core *core, int i, int k)
{
    const char *voter = core->guards[i].voter;
    return voter[0] && !strcmp(voter, core->guards[k].voter);
}

int guard_up(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    const struct info *info = &nd->info;
    if (info->role == RL_ROLE_REPLICA) {
        if (info->master_host[0])
            node_refuse(nd, RL_READONLY, "a replica of %s:%d; only masters can vote",
                        info->master_host, info->master_port);
        else
            node_refuse(nd, RL_READONLY, "a replica; only masters can vote");
        return 0;
    }
    if (nd->config->require_info && !info->run_id[0]) {
        node_refuse(nd, RL_NOPERM, "its run_id is not known, and restart_guard is "
                    "\"require\": allow INFO to this user");
        return 0;
    }
    int twin = guard_twin(core, i);
    if (twin >= 0) {
        const char *label = core->nodes[twin].config->label;
        node_refuse(nd, RL_CONFIG, "the same server under two addresses: it is %s as well",
                    label ? label : "another node");
        return 0;
    }
    /* A server that is loading its data gave no marker, and the marker of the server's
     * former life, which comes back with the data, counts no more. */
    if (core->guards[i].marker[0])
        guard_saw(core, i, core->guards[i].marker, now_ms);
    core->guards[i].asked = core->guards[i].twin = 0;
    core->guards[i].refused = RL_OK;
    memcpy(core->guards[i].voter, info->run_id, sizeof(info->run_id));
    node_ready(nd, now_ms);
    guard_visit(core, i, now_ms);
    return 1;
}

/* ---- clocks ---- */

/* By how much the node's clock was stepped forward while leases of now may have been
 * taken. */
static int64_t forward_ms(const struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    return g->steps && now_ms - g->stepped_ms <= guard_ms(core) ? g->forward_ms : 0;
}

/* By how much a majority of the clocks was stepped forward, at least. That our own clock
 * stood still instead makes no difference. */
static int64_t majority_forward_ms(const struct core *core, int64_t now_ms)
{
    int64_t back[RL_MAX_NODES];       /* negative: the largest come first */
    uint32_t voters = state_newest(core)->voters.old;
    int n = 0;
    for (int i = 0; i < core->n; i++) {
        if (voters & bit(i))
            back[n++] = -forward_ms(core, i, now_ms);
    }
    return -quorum_free_in_ms(back, n, n);
}

/* By how much a majority was stepped forward just now; -1: node i was not. */
static int64_t look_at_clock(struct core *core, int i, const struct request *request,
                             int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    const struct reply *reply = &core->nodes[i].wire.reply;
    if (reply->type != REPLY_ARRAY || !reply->has_second || reply->second_len > 6)
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
    if (state_newest(core)->voters.old != bit(0) || core->marker)
        g->suspect_ms = now_ms + guard_ms(core);
    return step_ms > 0 ? majority_forward_ms(core, now_ms) - before_ms : -1;
}

int64_t guard_told(struct core *core, int i, const struct request *request,
                   int64_t now_ms)
{
    const struct reply *reply = &core->nodes[i].wire.reply;
    if (request->kind == REQUEST_TIME)
        return look_at_clock(core, i, request, now_ms);
    core->guards[i].asked = 0;
    if (reply->type == REPLY_ERROR)
        core->guards[i].refused = wire_error_code(reply->text);
    if (reply->type == REPLY_NIL)
        guard_saw(core, i, "", now_ms);
    else if (reply->type == REPLY_STRING)
        guard_saw(core, i, reply->text, now_ms);
    else
        return -1;                /* the acquires, and rl_node_get_info(), will tell */
    if (core->nodes[i].state == NODE_READY)
        guard_visit(core, i, now_ms);
    return -1;
}

void guard_arm_timer(struct core *core, int64_t now_ms)
{
    if (!core->health.at)
        timer_set(&core->timers, &core->health, now_ms + TICK_MS);
}

void guard_on_timer(struct core *core, int64_t now_ms)
{
    for (int i = 0; i < core->n; i++) {
        if (core->nodes[i].state == NODE_READY && !health_hung(&core->nodes[i], now_ms))
            guard_visit(core, i, now_ms);
    }
    if (core->held)
        guard_arm_timer(core, now_ms);
}

/* ---- what the guard means for a vote ---- */

const struct condition *guard_marker(struct core *core, int i, int acquire,
                                  struct condition *behind)
{
    struct guard *g = &core->guards[i];
    if (!core->marker)
        return NULL;
    if (g->state != RL_GUARD_ADMITTED)
        write_marker(core, i, 0, g->want);
    else
        memcpy(g->want, g->marker, sizeof(g->want));
    *behind = (struct condition){core->marker, acquire ? g->want : ""};
    return behind;
}

const struct condition *guard_run(struct core *core, int i, int acquire,
                               struct condition *behind)
{
    if (acquire && core->marker)
        return guard_marker(core, i, acquire, behind);
    *behind = (struct condition){NULL, run_id_of(core, i)};
    return behind;
}

static int64_t seconds(int64_t ms)
{
    return (ms + 999) / 1000;
}

int guard_objects(struct core *core, int i, int suspect_only, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    const struct guard *g = &core->guards[i];
    if (now_ms < g->suspect_ms) {
        node_refuse(nd, RL_GUARDED, "its clock was stepped by %+.3f s; %" PRId64 " s left",
                    (double)g->step_ms / 1000, seconds(g->suspect_ms - now_ms));
        return RL_GUARDED;
    }
    if (suspect_only)
        return RL_OK;
    if (g->state == RL_GUARD_DISAGREES) {
        node_refuse(nd, RL_CONFIG, "max_lease is %g s there, by another client, and %g s "
                    "here; it must be the same for all (to change it: init { force })",
                    (double)g->theirs_ms / 1000, (double)core->max_lease_ms / 1000);
        return RL_CONFIG;
    }
    int64_t left_ms = g->until_ms ? g->until_ms - now_ms : guard_ms(core);
    if (left_ms > 0)
        node_refuse(nd, RL_GUARDED, "%" PRId64 " s left; new cluster? run redlock init",
                    seconds(left_ms));
    else
        node_refuse(nd, RL_GUARDED, "quarantine over; waiting for a majority of servers "
                    "to be connected with the same max_lease");
    return RL_GUARDED;
}

/* Until node i may vote; -1: unknown. */
static int64_t node_left_ms(const struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    int64_t left_ms = g->suspect_ms > now_ms ? g->suspect_ms - now_ms : 0;
    if (core->nodes[i].state != NODE_READY)
        return -1;
    if (g->state == RL_GUARD_QUARANTINED) {
        int64_t until_ms = g->until_ms ? g->until_ms - now_ms : guard_ms(core);
        left_ms = until_ms > left_ms ? until_ms : left_ms;
    }
    return g->state == RL_GUARD_DISAGREES ? -1 : left_ms;
}

int64_t guard_left_ms(const struct core *core, int64_t now_ms)
{
    int64_t left[RL_MAX_NODES];
    uint32_t voters = state_newest(core)->voters.old;
    int known = 0;
    for (int i = 0; i < core->n; i++) {
        int64_t ms = voters & bit(i) ? node_left_ms(core, i, now_ms) : -1;
        if (ms >= 0)
            left[known++] = ms;
    }
    return quorum_free_in_ms(left, known, __builtin_popcount(voters));
}

void guard_tell(const struct core *core, int i, rl_node_info *out, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    out->guard = !core->marker ? RL_GUARD_OFF : g->state ? g->state : RL_GUARD_UNKNOWN;
    out->marker_code = g->refused;
    out->twin = g->twin;
    if (out->guard == RL_GUARD_QUARANTINED)
        out->guard_left_ms = node_left_ms(core, i, now_ms);
    if (g->suspect_ms > now_ms)
        out->suspect_left_ms = g->suspect_ms - now_ms;
    out->step_ms = g->step_ms;
    out->steps = g->steps;
    out->clock = g->clock.known;
    out->offset_ms = clock_offset_ms(&g->clock);
    out->offset_error_ms = (g->clock.hi_ms - g->clock.lo_ms) / 2;
    out->round_trip_ms = g->clock.round_trip_ms;
}
