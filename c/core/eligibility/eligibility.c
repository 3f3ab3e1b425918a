/* eligibility.c - why a node has no vote, and how long until it may have one. The guard
 * (guard.h) decides who may vote. */
#include "core/eligibility/eligibility.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "node/node.h"

enum {
    SHOWN = 160,                  /* a list of servers in a message is cut to this many bytes */
    LATE_MS = 5000,               /* the last count, and the question about floors, take less */
    SOON_MS = 250                 /* how long that is said to take still */
};

/* ---- the cluster of a node ---- */

static int put(char *text, int len, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends to the text. Returns its new length. */
static int put(char *text, int len, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    len += vsnprintf(text + len, (size_t)(RL_TEXT_MAX - len), format, args);
    va_end(args);
    return len < RL_TEXT_MAX ? len : RL_TEXT_MAX - 1;
}

/* Appends the cluster that a marker names. servers: the list that is stored with the
 * marker, or NULL. */
static int put_cluster(char *text, int len, const char *cluster, const char *servers)
{
    if (!cluster_is_hash(cluster))
        return put(text, len, "cluster %s", cluster);
    if (!servers || !cluster_is_of(cluster, servers))
        return put(text, len, "another list of servers (%s)", cluster);
    size_t shown = strlen(servers);
    if (shown <= SHOWN)
        return put(text, len, "{%s}", servers);
    for (shown = SHOWN; shown > 0 && servers[shown] != ' '; shown--)
        ;
    return put(text, len, "{%.*s ...}", (int)shown, servers);
}

void eligibility_describe_clusters(const struct core *core, int i, char *text)
{
    const struct node *nd = &core->nodes[i];
    const char *label = nd->config->label;
    int len = put(text, 0, "%s belongs to ", label ? label : "it");
    len = put_cluster(text, len, core->guards[i].fields.cluster, nd->servers);
    len = put(text, len, ", and this client to ");
    len = put_cluster(text, len, core->cluster, core->servers);
    put(text, len, "; if these are the same servers under other addresses, set the "
        "same `cluster` everywhere");
}

/* ---- why a server has no vote ---- */

/* Why waiting will not give node i a vote, and the remedy; "": waiting may help. */
static void explain(const struct core *core, int i, char *text)
{
    const struct guard *g = &core->guards[i];
    text[0] = '\0';
    if (g->state != RL_GUARD_DISAGREES)
        return;
    switch ((enum objection)g->objection) {
    case OTHER_VERSION:
        snprintf(text, RL_TEXT_MAX, "its marker has version %d, which this library does not "
                 "know: upgrade this client (if the marker is wrong: DEL %s on that server)",
                 g->version, core->marker);
        break;
    case OTHER_CLUSTER:
        eligibility_describe_clusters(core, i, text);
        break;
    case OTHER_DATABASE:
        snprintf(text, RL_TEXT_MAX, "its marker is for database %" PRId64 ", and this client "
                 "uses %d: somebody ran SWAPDB, or copied the data. Stop all clients, then run "
                 "redlock init --force",
                 g->fields.db, core->nodes[i].config->db);
        break;
    default:
        snprintf(text, RL_TEXT_MAX, "another client set max_lease to %g s there, and this "
                 "client has %g s; all need the same (to change it: redlock init --force)",
                 (double)g->fields.max_lease_ms / 1000, (double)core->max_lease_ms / 1000);
    }
}

/* Whether the node's quarantine cannot begin: we may not write the marker, for which EVAL
 * and TIME are needed, and no other client has begun it. */
static int is_stuck(const struct core *core, int i)
{
    const struct guard *g = &core->guards[i];
    return g->state == RL_GUARD_QUARANTINED && !g->begun &&
           (g->no_eval || g->refused == RL_NOPERM ||
            (g->refused == RL_SCRIPT && core->nodes[i].timing < 0));
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
    if (core->nodes[i].state != NODE_READY || g->no_evalsha || is_stuck(core, i))
        return -1;
    if (g->state == RL_GUARD_QUARANTINED) {
        int64_t quarantine_ms = quarantine_left_ms(core, g, now_ms);
        if (quarantine_ms <= 0 && quarantine_ms > -LATE_MS)
            quarantine_ms = SOON_MS;    /* it is being admitted */
        left_ms = quarantine_ms > left_ms ? quarantine_ms : left_ms;
    }
    return g->state >= RL_GUARD_DISAGREES ? -1 : left_ms;
}

int64_t eligibility_left_ms(const struct core *core, int64_t now_ms)
{
    int64_t left[RL_MAX_NODES];
    int known = 0;
    for (int i = 0; i < core->n; i++) {
        int64_t ms = node_left_ms(core, i, now_ms);
        if (ms >= 0)
            left[known++] = ms;
    }
    return quorum_nth_ms(left, known, quorum_with(core->n, core->options.margin));
}

void eligibility_report(const struct core *core, int i, rl_node_info *out, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    out->guard = !core->marker ? RL_GUARD_OFF : is_stuck(core, i) || !g->state ? RL_GUARD_UNKNOWN
                                              : g->state;
    out->marker_code = g->refused;
    out->twin = g->twin;
    if (out->guard == RL_GUARD_QUARANTINED)
        out->guard_left_ms = node_left_ms(core, i, now_ms);
    out->memory = g->begun ? g->fields.state : 0;
    out->observed_ms = g->fields.observed_ms;
    out->seeded = g->seeded;
    out->named = core->name[0] && !strchr(core->name, ':');
    explain(core, i, out->why);
    memcpy(out->cluster, g->fields.cluster, sizeof(out->cluster));
    if (g->suspect_ms > now_ms)
        out->suspect_left_ms = g->suspect_ms - now_ms;
    out->step_ms = g->step_ms;
    out->steps = g->steps;
    out->clock = g->clock.known;
    out->offset_ms = clock_offset_ms(&g->clock);
    out->offset_error_ms = (g->clock.hi_ms - g->clock.lo_ms) / 2;
    out->round_trip_ms = g->clock.round_trip_ms;
}

static int64_t seconds(int64_t ms)
{
    return (ms + 999) / 1000;
}

/* Why a node is in quarantine. */
static const char *reason(const struct core *core, const struct guard *g)
{
    int state = g->begun ? g->fields.state : core->knows ? MARKER_LOST : MARKER_NEW;
    return state == MARKER_NEW       ? "it has no memory of locks yet"
           : state == MARKER_STEPPED ? "its clock was stepped"
                                     : "it lost its memory and may have forgotten locks";
}

int eligibility_check(struct core *core, int i, int suspect_only, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    const struct guard *g = &core->guards[i];
    char text[RL_TEXT_MAX];
    if (now_ms < g->suspect_ms) {
        node_refuse(nd, RL_GUARDED, "its clock was stepped by %+.3f s; %" PRId64 " s left",
                    (double)g->step_ms / 1000, seconds(g->suspect_ms - now_ms));
        return RL_GUARDED;
    }
    if (core->refusing) {         /* a marker names another list, so no node may vote */
        eligibility_describe_clusters(core, __builtin_ctz(core->refusing), text);
        node_refuse(nd, RL_CONFIG, "%s", text);
        return RL_CONFIG;
    }
    if (suspect_only)
        return RL_OK;
    explain(core, i, text);
    if (text[0]) {
        node_refuse(nd, RL_CONFIG, "%s", text);
        return RL_CONFIG;
    }
    if (is_stuck(core, i)) {
        node_refuse(nd, g->refused, "%s is missing or forbidden, so this server cannot vote",
                    g->no_eval       ? "EVAL"
                    : nd->timing < 0 ? "TIME"
                                     : "the right to write its marker");
        return g->refused;
    }
    int64_t left_ms = quarantine_left_ms(core, g, now_ms);
    if (left_ms > 0)
        node_refuse(nd, RL_GUARDED, "%s; it votes in %" PRId64 " s", reason(core, g),
                    seconds(left_ms));
    else
        node_refuse(nd, RL_GUARDED, "its quarantine has ended; it may vote when a majority "
                    "of the servers is connected and has the same max_lease");
    return RL_GUARDED;
}
