/* eligibility.c - why a node has no vote, and how long until it may have one. The guard
 * (guard.h) decides who may vote. */
#include "core/eligibility/eligibility.h"

#include <string.h>

#include "node/node.h"

enum {
    LATE_MS = 5000,               /* the last count, and the question about floors, take less */
    SOON_MS = 250                 /* reported as left while it is being admitted, or taught */
};

/* Whether the node's quarantine cannot begin: the server has refused our marker, not only for
 * now, and no other client has begun it. */
static int is_stuck(const struct guard *g)
{
    return g->state == RL_GUARD_QUARANTINED && !g->begun && g->refused && g->refused != RL_LOADING;
}

/* Milliseconds that are left of a quarantine: its whole length if it has not begun,
 * negative once it has ended. */
static int64_t quarantine_left_ms(const struct core *core, const struct guard *g,
                                  int64_t now_ms)
{
    int64_t whole_ms = state_guard_ms(core);
    return g->begun ? whole_ms - g->fields.observed_ms - (now_ms - g->text_ms) : whole_ms;
}

/* Milliseconds until node i may vote; -1: unknown. */
static int64_t node_left_ms(const struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    int64_t left_ms = g->suspect_ms > now_ms ? g->suspect_ms - now_ms : 0;
    if (core->nodes[i].state != NODE_READY || g->no_evalsha || is_stuck(g))
        return -1;
    if (g->state == RL_GUARD_QUARANTINED) {
        int64_t quarantine_ms = quarantine_left_ms(core, g, now_ms);
        if (quarantine_ms <= 0 && quarantine_ms > -LATE_MS)
            quarantine_ms = SOON_MS;    /* it is being admitted */
        left_ms = quarantine_ms > left_ms ? quarantine_ms : left_ms;
    }
    return g->state >= RL_GUARD_DISAGREES ? -1 : left_ms;
}

/* Milliseconds until nodes that lack floors can be taught them (teach.c): when enough others
 * know theirs, or no quarantine is left on a majority that knows none. -1: unknown. */
static int64_t lesson_left_ms(const struct core *core, int64_t now_ms)
{
    const struct guard *g = core->guards;
    int64_t left[RL_MAX_NODES], last_ms = 0;
    int lacking = 0, told = 0, q = quorum_size(core->n);
    for (int i = 0; i < core->n; i++) {
        int64_t ms = node_left_ms(core, i, now_ms);
        if (ms >= 0 && (g[i].lacks || g[i].state == RL_GUARD_QUARANTINED))
            left[lacking++] = ms;
        else
            told += ms >= 0;
        last_ms = g[i].text_ms > last_ms ? g[i].text_ms : last_ms;
    }
    int64_t left_ms = told > core->n - q ? 0 : quorum_nth_ms(left, lacking, q);
    return !left_ms && now_ms - last_ms < LATE_MS ? SOON_MS : left_ms;    /* being taught */
}

int64_t eligibility_left_ms(const struct core *core, int64_t now_ms)
{
    int64_t left[RL_MAX_NODES], lesson_ms = lesson_left_ms(core, now_ms);
    int known = 0;
    for (int i = 0; i < core->n; i++) {
        int64_t ms = node_left_ms(core, i, now_ms);
        if (core->guards[i].lacks && (lesson_ms < 0 || lesson_ms > ms))
            ms = lesson_ms;
        if (ms >= 0)
            left[known++] = ms;
    }
    return quorum_nth_ms(left, known, quorum_with(core->n, core->options.margin));
}

/* A node whose marker names another cluster or list: i if it is one, else the first; -1: none.
 * Nodes closed by a change to our list, which is unfinished, come first; those closed by other
 * changes, last. */
static int foreign_to(const struct core *core, int i)
{
    const struct guard *g = core->guards;
    uint32_t all = core->marker ? core->refusing : bit(i);
    uint32_t closed = all & NODES_WHERE(core, k, cluster_is_change(g[k].fields.cluster));
    uint32_t ours = closed & NODES_WHERE(core, k, cluster_is_of(g[k].fields.cluster, core->servers));
    uint32_t foreign = ours ? ours : all & ~closed ? all & ~closed : all;
    return !foreign ? -1 : foreign & bit(i) ? i : __builtin_ctz(foreign);
}

static enum rl_why of_others(const struct core *core, int i)
{
    const char *word = core->guards[foreign_to(core, i)].fields.cluster;
    return cluster_is_change(word) ? RL_WHY_CHANGING : RL_WHY_OTHER_CLUSTER;
}

enum rl_why eligibility_others(const struct core *core, int i)
{
    const struct guard *g = &core->guards[i];
    if (core->marker || !g->marker[0])
        return RL_WHY_NONE;
    return g->kind == MARKER_READ && strcmp(g->fields.cluster, core->cluster)
               ? of_others(core, i)
               : RL_WHY_GUARD_OFF;
}

/* Why node i may not vote. its_marker: the caller knows that it does not admit the node, and
 * wants to know why. */
static enum rl_why objection(const struct core *core, int i, int its_marker, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    enum rl_why others = eligibility_others(core, i);
    if (others)
        return others;
    if (now_ms < g->suspect_ms)
        return RL_WHY_CLOCK_STEPPED;
    if (core->refusing)           /* a marker names another list, so no node may vote */
        return of_others(core, i);
    if (!its_marker)
        return RL_WHY_NONE;
    if (g->state == RL_GUARD_DISAGREES)
        return g->objection;
    if (is_stuck(g))
        return g->no_eval                   ? RL_WHY_NO_EVAL
               : core->nodes[i].timing < 0 ? RL_WHY_NO_TIME
                                            : RL_WHY_MARKER_REFUSED;
    if (quarantine_left_ms(core, g, now_ms) <= 0)
        return RL_WHY_QUARANTINE_OVER;
    if (g->refused && !g->begun)
        return RL_WHY_MARKER_REFUSED;
    int state = g->begun ? g->fields.state : core->knows ? MARKER_LOST : MARKER_NEW;
    return state == MARKER_NEW       ? RL_WHY_NEW
           : state == MARKER_STEPPED ? RL_WHY_CLOCK_STEPPED
                                     : RL_WHY_MEMORY_LOST;
}

void eligibility_report(const struct core *core, int i, rl_node_info *out, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    out->guard = !core->marker ? RL_GUARD_OFF : is_stuck(g) || !g->state ? RL_GUARD_UNKNOWN
                                              : g->state;
    out->marker_code = g->refused;
    if (out->guard == RL_GUARD_QUARANTINED)
        out->guard_left_ms = node_left_ms(core, i, now_ms);
    int never = g->objection == RL_WHY_OTHER_CLUSTER && g->fields.state == MARKER_NEW;
    out->memory = g->begun || never ? g->fields.state : 0;
    out->observed_ms = g->fields.observed_ms;
    out->seeded = g->seeded;
    out->named = core->name[0] && !strchr(core->name, ':');
    int ready = core->nodes[i].state == NODE_READY;
    int its_marker = g->state > RL_GUARD_ADMITTED || (!g->state && g->refused && ready);
    out->objection = g->twin && ready ? RL_WHY_TWIN
                                      : objection(core, i, core->marker && its_marker, now_ms);
    out->foreign = foreign_to(core, i);
    out->quarantine_ms = state_guard_ms(core);
    out->marker_version = g->version;
    out->marker_db = (int32_t)g->fields.db;
    out->marker_max_lease_ms = g->fields.max_lease_ms;
    memcpy(out->cluster, g->fields.cluster, sizeof(out->cluster));
    const char *servers = core->nodes[i].servers;
    if (servers && cluster_is_of(out->cluster, servers))
        strncpy(out->servers, servers, sizeof(out->servers) - 1);
    strncpy(out->own_servers, core->servers ? core->servers : "", sizeof(out->own_servers) - 1);
    if (g->suspect_ms > now_ms)
        out->suspect_left_ms = g->suspect_ms - now_ms;
    out->step_ms = g->step_ms;
    out->steps = g->steps;
    out->clock = g->clock.known;
    out->offset_ms = clock_offset_ms(&g->clock);
    out->offset_error_ms = (g->clock.hi_ms - g->clock.lo_ms) / 2;
    out->round_trip_ms = g->clock.round_trip_ms;
}

int eligibility_check(struct core *core, int i, int suspect_only, int64_t now_ms)
{
    enum rl_why why = objection(core, i, !suspect_only, now_ms);
    const struct guard *g = &core->guards[i];
    int code = why >= RL_WHY_OTHER_VERSION                     ? RL_CONFIG
               : why >= RL_WHY_MARKER_REFUSED && is_stuck(g) ? g->refused
                                                               : RL_GUARDED;
    return why ? node_object(&core->nodes[i], code, why) : RL_OK;
}
