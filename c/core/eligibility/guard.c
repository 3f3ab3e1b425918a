#include "core/eligibility/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/eligibility/marking.h"
#include "core/eligibility/eligibility.h"
#include "node/health.h"

enum {
    DEFAULT_MAX_LEASE_MS = 60000,
    TICK_MS = 1000,               /* between two looks at the nodes, with leases held */
    PROGRESS_MS = 2000            /* between two notes on how far a quarantine is */
};

void guard_init(struct core *core, const char *key, const char *script,
                int64_t max_lease_ms, int64_t lease_ms)
{
    core->marker = key;
    core->max_lease_ms = max_lease_ms ? max_lease_ms : DEFAULT_MAX_LEASE_MS;
    core->lease_ms = lease_ms ? lease_ms : core->max_lease_ms;
    core->marker_script = script;
}

void guard_join(struct core *core, const char *name, const char *servers)
{
    core->servers = servers;
    cluster_hash(servers, core->hash);
    snprintf(core->cluster, sizeof(core->cluster), "%s", name ? name : core->hash);
}

/* ---- reading markers ---- */

static void become(struct core *core, int i, enum rl_guard state)
{
    struct guard *g = &core->guards[i];
    if (g->state != (int)state)
        core->node_changes++;
    g->state = (int)state;
    if (state != RL_GUARD_QUARANTINED)
        g->until_ms = 0;
}

static void disagree(struct core *core, int i, enum objection objection)
{
    core->guards[i].objection = objection;
    if (objection == OTHER_CLUSTER)
        core->refusing |= bit(i);
    become(core, i, RL_GUARD_DISAGREES);
}

/* The quarantine begins, once go_on() has replaced the marker. */
static void begin(struct core *core, int i)
{
    core->guards[i].until_ms = 0;
    become(core, i, RL_GUARD_QUARANTINED);
}

/* The marker shows that the server keeps its memory: sets until when we must see it. */
static void observe(struct core *core, int i, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    int64_t until_ms = now_ms + state_guard_ms(core) - g->fields.observed_ms;
    if (g->state != RL_GUARD_QUARANTINED || !g->until_ms || until_ms < g->until_ms ||
        strcmp(g->observed, g->fields.inc))
        g->until_ms = until_ms;
    memcpy(g->observed, g->fields.inc, sizeof(g->observed));
    become(core, i, RL_GUARD_QUARANTINED);
}

/* True: the marker is of the server's present life, or that life is not known. */
static int of_this_life(const struct core *core, int i)
{
    char replid[MARKER_HEX + 1];
    marker_replid(core->nodes[i].info.replid, replid);
    return !replid[0] || !strcmp(replid, core->guards[i].fields.replid);
}

/* True: the marker is of our cluster. A client with a name also accepts the hash. */
static int of_this_cluster(const struct core *core, int i)
{
    const char *cluster = core->guards[i].fields.cluster;
    return !strcmp(cluster, core->cluster) || !strcmp(cluster, core->hash);
}

/* Sets the node's state by the text seen last. */
static void judge(struct core *core, int i, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    const struct marker *m = &g->fields;
    int64_t ours_ms = core->max_lease_ms;
    int alive = of_this_life(core, i), pending = m->state == MARKER_QUARANTINED;
    g->objection = NO_OBJECTION;
    core->refusing &= ~bit(i);
    if (g->kind == MARKER_UNKNOWN) {
        disagree(core, i, OTHER_VERSION);
    } else if (g->kind != MARKER_READ) {
        begin(core, i);
    } else if (m->db != core->nodes[i].config->db) {
        disagree(core, i, OTHER_DATABASE);
    } else if (!of_this_cluster(core, i)) {
        disagree(core, i, OTHER_CLUSTER);
    } else if (m->max_lease_ms > ours_ms ||
               (m->max_lease_ms < ours_ms && alive && !pending)) {
        disagree(core, i, OTHER_MAX_LEASE);
    } else if (g->forgot) {
        become(core, i, RL_GUARD_UNKNOWN);
    } else if (!alive || m->max_lease_ms != ours_ms) {
        begin(core, i);
    } else if (pending) {
        observe(core, i, now_ms);
    } else {
        become(core, i, RL_GUARD_ADMITTED);
    }
}

void guard_saw(struct core *core, int i, const char *text, size_t len, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    if (len && text[0] == '!') {
        g->forgot = 1;
        text++;
        len--;
    }
    g->kind = marker_parse(text, len, &g->fields, &g->version);
    for (size_t k = 0; k < len && g->kind == MARKER_FOREIGN; k++) {
        if (text[k] < ' ' || text[k] > '~' || len > MARKER_TEXT) {
            text = "#";
            len = 1;
        }
    }
    if (len >= MARKER_MAX)        /* of another version */
        len = MARKER_TEXT;
    if (strlen(g->marker) != len || memcmp(g->marker, text, len)) {
        memcpy(g->marker, text, len);
        g->marker[len] = '\0';
        g->text_ms = now_ms;
        g->marked_ms = 0;
        g->refused = g->no_eval = 0;
    }
    g->seen_ms = now_ms;
    if (!core->marker)
        return;
    judge(core, i, now_ms);
    if (g->state == RL_GUARD_ADMITTED)     /* an unchanged one clears no other error */
        g->refused = RL_OK;
}

int guard_passed(struct core *core, int i, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    size_t len = strlen(g->want);
    if (core->marker && g->state != RL_GUARD_ADMITTED && len > 1)
        guard_saw(core, i, g->want, len - (g->want[len - 1] == '!'), now_ms);
    int fit = !core->marker || g->state == RL_GUARD_ADMITTED;
    return eligibility_check(core, i, fit, now_ms);
}

/* ---- admission ---- */

static int observing(const struct core *core, int i)
{
    const struct guard *g = &core->guards[i];
    return core->marker && core->nodes[i].state == NODE_READY && !g->asked &&
           g->state == RL_GUARD_QUARANTINED && g->until_ms;
}

/* The nodes whose markers were seen, a bit each. */
static uint32_t heard(const struct core *core)
{
    uint32_t nodes = 0;
    for (int i = 0; i < core->n; i++)
        nodes |= core->guards[i].kind ? bit(i) : 0;
    return nodes;
}

/* True: the markers of a majority are known, and none disagrees. */
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

/* Writes what is due into the marker of node i, which is in quarantine. Begins it only
 * when a majority was heard: a server that we meet alone may have forgotten that it
 * belongs to another cluster. */
static void go_on(struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    if (!g->until_ms && state_majority(core, heard(core))) {
        struct marker m = marking_new(core, i, MARKER_QUARANTINED);
        marking_replace(core, i, &m, now_ms);
    } else if (g->until_ms && now_ms >= g->until_ms && may_admit(core)) {
        struct marker m = marking_in_state(g, MARKER_ADMITTED);
        marking_replace(core, i, &m, now_ms);
    } else if (g->until_ms && now_ms < g->until_ms && now_ms == g->seen_ms &&
               now_ms - g->text_ms >= PROGRESS_MS) {
        /* Only with a text read just now: of a hundred clients one does. */
        marking_progress(core, i, now_ms);
    }
}

/* True: the marker is not of the list beside it, which was not read since. */
static int list_is_old(const struct core *core, int i)
{
    const struct guard *g = &core->guards[i];
    const struct node *nd = &core->nodes[i];
    return g->objection == OTHER_CLUSTER && cluster_is_hash(g->fields.cluster) &&
           nd->listed_ms <= g->text_ms &&
           !(nd->servers && cluster_is_of(g->fields.cluster, nd->servers));
}

void guard_visit(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    struct guard *g = &core->guards[i];
    if (node_look(nd, now_ms) || (g->forgot && node_look_at_life(nd, now_ms)) ||
        (list_is_old(core, i) && node_ask_servers(nd, now_ms)))
        marking_send(core, i);
    if (core->marker && g->state == RL_GUARD_QUARANTINED && !g->asked && !core->refusing &&
        marking_due(g, now_ms))
        go_on(core, i, now_ms);
}

void guard_leave(struct core *core, int64_t now_ms)
{
    for (int i = 0; i < core->n; i++) {
        if (observing(core, i))
            marking_progress(core, i, now_ms);
    }
}

void guard_admit(struct core *core, int force, int64_t seen_ms, int64_t now_ms)
{
    for (int i = 0; i < core->n && core->marker; i++) {
        const struct guard *g = &core->guards[i];
        if (core->nodes[i].state != NODE_READY || g->objection == OTHER_VERSION)
            continue;
        /* A younger one may be of a server that has forgotten later grants. */
        int same = g->until_ms && g->text_ms <= seen_ms;
        int forced = force && (g->state == RL_GUARD_QUARANTINED ||
                               g->state == RL_GUARD_DISAGREES);
        struct marker m = g->until_ms || g->state == RL_GUARD_ADMITTED
                              ? marking_in_state(g, MARKER_ADMITTED)
                              : marking_new(core, i, MARKER_ADMITTED);
        memcpy(m.cluster, core->cluster, sizeof(m.cluster));
        if (forced || (same && g->state == RL_GUARD_QUARANTINED) ||
            (g->state == RL_GUARD_ADMITTED && strcmp(g->fields.cluster, core->cluster)))
            marking_replace(core, i, &m, now_ms);
    }
}

/* ---- coming up ---- */

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

/* Node i becomes ready to vote: notes which nodes were the same server when each last
 * became so. Such a twin may be disconnected now. */
static void note_voter(struct core *core, int i)
{
    struct guard *g = &core->guards[i];
    memcpy(g->voter, core->nodes[i].info.run_id, sizeof(g->voter));
    g->same_voter = 0;
    for (int k = 0; k < core->n; k++) {
        struct guard *other = &core->guards[k];
        int same = k != i && g->voter[0] && !strcmp(g->voter, other->voter);
        g->same_voter |= same ? bit(k) : 0;
        other->same_voter = (other->same_voter & ~bit(i)) | (same ? bit(i) : 0);
    }
}

/* 1; or 0, with the node's text: it is a replica. */
static int is_master(struct node *nd)
{
    const struct info *info = &nd->info;
    if (info->role != RL_ROLE_REPLICA)
        return 1;
    if (info->master_host[0])
        node_refuse(nd, RL_READONLY, "a replica of %s:%d; only masters can vote",
                    info->master_host, info->master_port);
    else
        node_refuse(nd, RL_READONLY, "a replica; only masters can vote");
    return 0;
}

/* 1; or 0, with the node's text: the node, or our use of it, is misconfigured. What the
 * server is comes first: in cluster mode the other remedies would not help. */
static int is_fit(struct core *core, int i)
{
    struct node *nd = &core->nodes[i];
    const struct guard *g = &core->guards[i];
    if (nd->info.sentinel) {
        node_refuse(nd, RL_CONFIG, "a Sentinel: name the masters that it watches");
    } else if (nd->info.cluster) {
        node_refuse(nd, RL_CONFIG, "it runs in cluster mode, in which keys move between "
                    "servers; use independent servers (cluster-enabled no)");
    } else if (!core->marker && g->kind == MARKER_READ && !of_this_cluster(core, i)) {
        char text[RL_TEXT_MAX];
        eligibility_describe_clusters(core, i, text);
        node_refuse(nd, RL_CONFIG, "%s", text);
    } else if (!core->marker && g->marker[0]) {
        node_refuse(nd, RL_CONFIG, "other clients use it with the restart guard, and this one "
                    "without: after a restart a lock could have two holders. Turn the guard on "
                    "in all clients");
    } else {
        return 1;
    }
    return 0;
}

int guard_up(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    struct guard *g = &core->guards[i];
    if (!is_master(nd) || !is_fit(core, i))
        return 0;
    int twin = guard_twin(core, i);
    if (twin >= 0) {
        const char *label = core->nodes[twin].config->label;
        node_refuse(nd, RL_CONFIG, "the same server under two addresses: it is %s as well",
                    label ? label : "another node");
        return 0;
    }
    g->asked = g->twin = g->forgot = 0;
    /* A server gives no marker while it loads its data. The marker that comes back with
     * the data is of its former life, and does not count. */
    if (core->marker && g->kind)
        judge(core, i, now_ms);
    g->refused = g->no_eval = g->no_evalsha = 0;
    note_voter(core, i);
    node_ready(nd, now_ms);
    guard_visit(core, i, now_ms);
    return 1;
}

int guard_answered(struct core *core, int i, const struct request *request, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    struct guard *g = &core->guards[i];
    const struct reply *reply = &nd->wire.reply;
    if (request->kind == REQUEST_INFO) {
        if (nd->state != NODE_READY)
            return 1;
        g->forgot = 0;
        if (core->marker && g->kind)
            judge(core, i, now_ms);
        return is_master(nd);
    }
    int first = !g->kind;
    g->asked = 0;
    if (reply->type == REPLY_ERROR)
        g->refused = wire_error_code(reply->text);
    g->no_eval |= wire_no_command(reply);
    if (reply->type == REPLY_NIL)
        guard_saw(core, i, "", 0, now_ms);
    else if (reply->type == REPLY_STRING)
        guard_saw(core, i, reply->text, reply->text_len, now_ms);
    else if (reply->type == REPLY_ERROR && !strncmp(reply->text, "WRONGTYPE", 9))
        guard_saw(core, i, "#", 1, now_ms);
    else
        return 1;                 /* the acquires, and rl_node_get_info(), will tell */
    for (int k = 0; k < core->n; k++) {
        if ((k == i || first) && core->nodes[k].state == NODE_READY)
            guard_visit(core, k, now_ms);
    }
    return 1;
}

void guard_demoted(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    core->guards[i].forgot = 1;
    if (core->marker && core->guards[i].kind)
        judge(core, i, now_ms);
    if (nd->state == NODE_READY && node_look_at_life(nd, now_ms))
        marking_send(core, i);
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
        state_reconnect_for_holds(core, i, now_ms);
    }
    if (core->held)
        guard_arm_timer(core, now_ms);
}

/* ---- what the guard means for a vote ---- */

/* True: the server may change to another life while connected: acquires check it. */
static int looks_at_life(const struct core *core, int i)
{
    const struct node *nd = &core->nodes[i];
    return nd->config->behind_proxy || nd->info.replicas || nd->info.failed_over;
}

const char *guard_marker(struct core *core, int i, int acquire)
{
    struct guard *g = &core->guards[i];
    if (!core->marker)
        return NULL;
    if (g->state == RL_GUARD_ADMITTED) {
        memcpy(g->want, g->marker, sizeof(g->want));
    } else if (g->state == RL_GUARD_QUARANTINED && g->until_ms) {
        struct marker m = marking_in_state(g, MARKER_ADMITTED);    /* by another client */
        marker_write(&m, g->want);
    } else {
        memcpy(g->want, "?", 2);  /* matches none: the reply tells the marker */
    }
    if (looks_at_life(core, i) && g->fields.replid[0] && g->want[0] != '?')
        strcat(g->want, "!");
    return acquire ? g->want : "";
}

const char *guard_run(struct core *core, int i, int acquire)
{
    struct guard *g = &core->guards[i];
    if (acquire && core->marker)
        return guard_marker(core, i, acquire);
    const char *name = core->nodes[i].info.replid;
    if (core->marker && name[0])
        name = g->kind == MARKER_READ && !g->forgot && of_this_life(core, i) ? g->marker : "";
    return name[0] ? name : "?";
}

int guard_nameless(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    if (!core->marker && now_ms - nd->life_ms >= NODE_LOOK_MS &&
        now_ms - nd->ready_ms >= NODE_LOOK_MS && node_look_at_life(nd, now_ms))
        marking_send(core, i);
    if (nd->info.replid[0])
        return 0;
    node_refuse(nd, RL_NOPERM, "it does not show its master_replid, so after a restart "
                "it might issue a token twice: allow INFO to this user");
    return 1;
}
