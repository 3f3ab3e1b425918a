#include "core/eligibility/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/eligibility/marking.h"
#include "core/eligibility/eligibility.h"
#include "node/health.h"
#include "node/questions.h"

enum {
    DEFAULT_MAX_LEASE_MS = 60000,
    MARK_MS = 1000,               /* between two requests to replace one text */
    TICK_MS = 1000,               /* between two looks at the nodes, with leases held */
    PROGRESS_MS = 2000,           /* between two notes on how far a quarantine is */
    CUT_MS = 2,                   /* two times are cut to whole milliseconds */
    LIVE_MS = 2000,               /* a marker that was read since is the present one */
    MET_MS = 1000                 /* by how much a server's uptime may be wrong */
};

void guard_init(struct core *core, const char *key, const char *script, int64_t max_lease_ms,
                int64_t lease_ms, const char *name, const char *servers)
{
    core->marker = key;
    core->max_lease_ms = max_lease_ms ? max_lease_ms : DEFAULT_MAX_LEASE_MS;
    core->lease_ms = lease_ms ? lease_ms : core->max_lease_ms;
    core->marker_script = script;
    core->servers = servers;
    cluster_hash(servers, core->hash);
    snprintf(core->name, sizeof(core->name), "redlock:%.8s", core->hash);
    snprintf(core->cluster, sizeof(core->cluster), "%s", name ? name : core->hash);
}

/* ---- reading markers ---- */

static void become(struct core *core, int i, enum rl_guard state)
{
    struct guard *g = &core->guards[i];
    if (g->state != (int)state)
        core->node_changes++;
    g->state = (int)state;
}

static void disagree(struct core *core, int i, enum rl_why objection)
{
    core->guards[i].objection = objection;
    if (objection == RL_WHY_OTHER_CLUSTER)
        core->refusing |= bit(i);
    become(core, i, RL_GUARD_DISAGREES);
}

/* True: the marker is of the server's present life, or that life is not known. */
static int of_this_life(const struct core *core, int i)
{
    char replid[MARKER_HEX + 1];
    marker_replid(core->nodes[i].info.replid, replid);
    return !replid[0] || !strcmp(replid, core->guards[i].fields.replid);
}

/* The nodes whose markers, read since since_ms, were of this life and admitted, or in any
 * state but NEW, a bit each. */
static uint32_t seen(const struct core *core, int admitted, int64_t since_ms)
{
    const struct guard *g = core->guards;
    return NODES_WHERE(core, i, core->nodes[i].state == NODE_READY && g[i].seen_ms >= since_ms &&
                           (g[i].state == RL_GUARD_ADMITTED ||
                            (!admitted && g[i].begun && g[i].fields.state != MARKER_NEW)));
}

static void learn(struct core *core)
{
    core->knows |= state_majority(core, seen(core, 0, 0));
}

/* Sets the node's state by the text seen last. A quarantine that has not begun does so
 * once go_on() has replaced the marker.
 *
 * The order is policy: the first branch that applies decides. First what cannot be read, then
 * whose marker it is (database, cluster, max_lease), as that of others says nothing of our
 * locks; only then what the server has forgotten, and last how far its quarantine is. */
static void decide_state(struct core *core, int i)
{
    struct guard *g = &core->guards[i];
    const struct marker *m = &g->fields;
    int64_t ours_ms = core->max_lease_ms;
    int alive = of_this_life(core, i), pending = m->state != MARKER_ADMITTED;
    g->objection = RL_WHY_NONE;
    g->begun = 0;
    core->refusing &= ~bit(i);
    if (g->kind == MARKER_UNKNOWN) {
        disagree(core, i, RL_WHY_OTHER_VERSION);
    } else if (g->kind != MARKER_READ) {
        become(core, i, RL_GUARD_QUARANTINED);
    } else if (m->db != core->nodes[i].config->db) {
        disagree(core, i, RL_WHY_OTHER_DATABASE);
    } else if (strcmp(m->cluster, core->cluster)) {
        disagree(core, i, RL_WHY_OTHER_CLUSTER);
    } else if (m->max_lease_ms > ours_ms ||
               (m->max_lease_ms < ours_ms && alive && !pending)) {
        disagree(core, i, RL_WHY_OTHER_MAX_LEASE);
    } else if (g->forgot) {
        become(core, i, RL_GUARD_UNKNOWN);
    } else if (!alive || m->max_lease_ms != ours_ms) {
        become(core, i, RL_GUARD_QUARANTINED);
    } else {
        g->begun = pending;
        become(core, i, pending ? RL_GUARD_QUARANTINED : RL_GUARD_ADMITTED);
    }
    learn(core);
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
    if (g->kind != MARKER_READ || strncmp(g->marker, g->fields.inc, MARKER_HEX))
        g->inc_ms = now_ms;
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
    decide_state(core, i);
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
    return core->marker && core->nodes[i].state == NODE_READY && !g->asked && g->begun;
}

/* True: the markers of a majority are known, and none disagrees. */
static int may_admit(const struct core *core)
{
    const struct guard *g = core->guards;
    uint32_t known = NODES_WHERE(core, i, core->nodes[i].state == NODE_READY &&
                                     (g[i].state == RL_GUARD_ADMITTED ||
                                      g[i].state == RL_GUARD_QUARANTINED));
    return state_majority(core, known) &&
           !NODES_WHERE(core, i, g[i].state == RL_GUARD_DISAGREES);
}

int guard_has_served(const struct core *core, int i)
{
    return observing(core, i) && core->guards[i].fields.observed_ms >= state_guard_ms(core) &&
           may_admit(core) && !core->refusing;
}

/* NEW, if nobody is known to have used these servers. */
static enum marker_state loss(const struct core *core, int i)
{
    const struct guard *g = &core->guards[i];
    int was_new = g->kind == MARKER_NONE || (g->kind == MARKER_READ && of_this_life(core, i) &&
                                             g->fields.state == MARKER_NEW);
    return was_new && !core->knows ? MARKER_NEW : MARKER_LOST;
}

/* True: it is time to add to the text how long we have seen it. Of a hundred clients one
 * does: the first that has read it just now. */
static int progress_due(const struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    int64_t own_ms = now_ms - g->text_ms;
    int ends = g->fields.observed_ms + own_ms >= state_guard_ms(core) + CUT_MS;
    return (ends && own_ms >= TICK_MS) || (now_ms == g->seen_ms && own_ms >= PROGRESS_MS);
}

/* Has teach_look() called, once a second. */
static void ask_for_floors(struct core *core, int64_t now_ms)
{
    int64_t at_ms = core->taught_ms + TICK_MS > now_ms ? core->taught_ms + TICK_MS : now_ms;
    if (!core->teaching && (!core->health.at || core->health.due_ms > at_ms))
        timer_set(&core->timers, &core->health, at_ms);
}

/* Writes what is due into the marker of node i, which is in quarantine. Begins it only
 * when a majority was heard: a server that we meet alone may have forgotten that it
 * belongs to another cluster. */
static void go_on(struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    uint32_t heard = NODES_WHERE(core, k, core->guards[k].kind);
    if (!g->begun && state_majority(core, heard)) {
        struct marker m = marking_new(core, i, loss(core, i));
        marking_replace(core, i, &m, "", 0, now_ms);
    } else if (g->begun && g->fields.state == MARKER_NEW && core->knows &&
               !state_majority(core, seen(core, 1, now_ms - LIVE_MS))) {
        marking_progress(core, i, MARKER_LOST, now_ms);
    } else if (guard_has_served(core, i)) {
        ask_for_floors(core, now_ms);
    } else if (g->begun && g->fields.observed_ms < state_guard_ms(core) &&
               progress_due(core, i, now_ms)) {
        marking_progress(core, i, g->fields.state, now_ms);
    }
}

/* True: for all clients a whole quarantine has been left since the step of node i's clock.
 * Both times are the server's: a text of before that we have not seen until now may have
 * been counted by others for long. */
static int step_settled(struct core *core, int i)
{
    struct guard *g = &core->guards[i];
    if (!g->begun || g->fields.observed_ms > g->fields.at_ms - g->stepped_at_ms)
        return 0;
    g->step = STEP_OURS;
    g->suspect_ms = 0;
    return 1;
}

/* Begins a quarantine of node i, or begins it anew: what was healed there since may have
 * gone, too. */
static void write_step(struct core *core, int i, int64_t now_ms)
{
    const struct guard *g = &core->guards[i];
    struct marker m = marking_in_state(g, g->begun ? g->fields.state : MARKER_STEPPED);
    marking_replace(core, i, &m, "", 0, now_ms);
}

/* True: the marker is not of the list beside it, which was not read since. */
static int list_is_old(const struct core *core, int i)
{
    const struct guard *g = &core->guards[i];
    const struct node *nd = &core->nodes[i];
    return g->objection == RL_WHY_OTHER_CLUSTER && cluster_hash_in(g->fields.cluster) &&
           nd->listed_ms <= g->text_ms &&
           !(nd->servers && cluster_is_of(g->fields.cluster, nd->servers));
}

void guard_visit(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    struct guard *g = &core->guards[i];
    if (node_look(nd, now_ms) || (g->forgot && node_look_at_life(nd, now_ms)) ||
        (list_is_old(core, i) && node_ask_servers(nd, now_ms)))
        state_write(core, i);
    if (!core->marker || g->asked || core->refusing ||
        (g->marked_ms && now_ms - g->marked_ms < MARK_MS))
        return;
    int known = g->begun || g->state == RL_GUARD_ADMITTED;
    if (g->step == STEP_COUNTS && known && now_ms < g->suspect_ms && !step_settled(core, i))
        write_step(core, i, now_ms);
    else if (g->state == RL_GUARD_QUARANTINED)
        go_on(core, i, now_ms);
}

void guard_leave(struct core *core, int64_t now_ms)
{
    for (int i = 0; i < core->n; i++) {
        if (observing(core, i))
            marking_progress(core, i, core->guards[i].fields.state, now_ms);
    }
}

uint32_t guard_admissible(const struct core *core, int force, int64_t seen_ms)
{
    uint32_t nodes = 0;
    int64_t least_ms = state_guard_ms(core) < RL_NEW_MS ? state_guard_ms(core) : RL_NEW_MS;
    for (int i = 0; i < core->n && core->marker; i++) {
        const struct guard *g = &core->guards[i];
        if (core->nodes[i].state != NODE_READY || g->objection == RL_WHY_OTHER_VERSION)
            continue;
        /* A younger one may be of a server that has forgotten later grants. */
        int new = g->begun && g->fields.state == MARKER_NEW &&
                  g->fields.observed_ms >= least_ms && g->inc_ms <= seen_ms;
        int forced = force && (g->state == RL_GUARD_QUARANTINED ||
                               g->state == RL_GUARD_DISAGREES);
        nodes |= new || forced ? bit(i) : 0;
    }
    return nodes;
}

struct marker guard_admission(struct core *core, int i)
{
    const struct guard *g = &core->guards[i];
    struct marker m = g->begun || g->state == RL_GUARD_ADMITTED
                          ? marking_in_state(g, MARKER_ADMITTED)
                          : marking_new(core, i, MARKER_ADMITTED);
    memcpy(m.cluster, core->cluster, sizeof(m.cluster));
    return m;
}

void guard_counts_vote(struct core *core, int64_t now_ms)
{
    const char *words[] = {"CLIENT", "SETNAME", core->name};
    char *sign = strchr(core->name, ':');
    if (!core->marker || !sign)
        return;
    *sign = '!';
    guard_arm_timer(core, now_ms);
    for (int i = 0; i < core->n; i++) {
        if (core->nodes[i].state == NODE_READY &&
            !node_request(&core->nodes[i], REQUEST_NAME, 3, words, NULL, now_ms))
            core->want_write |= link_bit(i);
    }
}

/* ---- coming up ---- */

int guard_twin(const struct core *core, int i)
{
    const char *run_id = core->nodes[i].info.server.run_id;
    const struct node *nodes = core->nodes;
    uint32_t same = NODES_WHERE(core, k, k != i && nodes[k].state == NODE_READY && run_id[0] &&
                                    !strcmp(nodes[k].info.server.run_id, run_id));
    return same ? __builtin_ctz(same) : -1;
}

/* Node i becomes ready to vote: notes which nodes were the same server when each last
 * became so. Such a twin may be disconnected now. */
static void note_voter(struct core *core, int i)
{
    struct guard *g = &core->guards[i];
    memcpy(g->voter, core->nodes[i].info.server.run_id, sizeof(g->voter));
    g->same_voter = 0;
    for (int k = 0; k < core->n; k++) {
        struct guard *other = &core->guards[k];
        int same = k != i && g->voter[0] && !strcmp(g->voter, other->voter);
        g->same_voter |= same ? bit(k) : 0;
        other->same_voter = (other->same_voter & ~bit(i)) | (same ? bit(i) : 0);
    }
}

/* 1; or 0, with the node's reason: the node, or our use of it, is misconfigured. What the
 * server is comes first: in cluster mode the other remedies would not help. */
static int is_fit(struct core *core, int i)
{
    struct node *nd = &core->nodes[i];
    const struct guard *g = &core->guards[i];
    int replica = nd->info.server.role == RL_ROLE_REPLICA;
    int several = g->alone == ALONE_PERHAPS || g->alone == ALONE_NO;
    enum rl_why why = replica               ? RL_WHY_REPLICA
                      : several             ? RL_WHY_BALANCER
                      : nd->info.sentinel   ? RL_WHY_SENTINEL
                      : nd->info.cluster    ? RL_WHY_CLUSTER_MODE
                                            : eligibility_others(core, i);
    int code = replica ? RL_READONLY : g->alone == ALONE_PERHAPS ? RL_REFUSED : RL_CONFIG;
    return !why || !node_object(nd, code, why);
}

int guard_is_alone(struct core *core, int i, int64_t now_ms)
{
    struct guard *g = &core->guards[i];
    const rl_server_info *server = &core->nodes[i].info.server;
    if (g->alone >= ALONE_NO || !server->run_id[0])
        return 1;
    int first = !g->met[0];
    int started = server->uptime_s * 1000 <= now_ms - g->met_ms + MET_MS;
    if (!first)
        g->alone = !strcmp(g->met, server->run_id) ? ALONE_YES : started ? ALONE_PERHAPS : ALONE_NO;
    memcpy(g->met, server->run_id, sizeof(g->met));
    g->met_ms = now_ms;
    return !first;
}

int guard_up(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    struct guard *g = &core->guards[i];
    if (!is_fit(core, i))
        return 0;
    if (guard_twin(core, i) >= 0)
        return !node_object(nd, RL_CONFIG, RL_WHY_TWIN);
    g->asked = g->twin = g->forgot = 0;
    /* A server gives no marker while it loads its data. The marker that comes back with
     * the data is of its former life, and does not count. */
    if (core->marker && g->kind)
        decide_state(core, i);
    g->refused = g->no_eval = g->no_evalsha = 0;
    note_voter(core, i);
    node_ready(nd, now_ms);
    learn(core);
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
            decide_state(core, i);
        return nd->info.server.role != RL_ROLE_REPLICA || is_fit(core, i);
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
    /* While something is held, redlock init is to see us (restart_guard.lua). */
    return core->marker || core->held || nd->state != NODE_READY || is_fit(core, i);
}

void guard_demoted(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    core->guards[i].forgot = 1;
    if (core->marker && core->guards[i].kind)
        decide_state(core, i);
    if (nd->state == NODE_READY && node_look_at_life(nd, now_ms))
        state_write(core, i);
}

int guard_idles(const struct core *core)
{
    return core->marker && !core->closed && !strchr(core->name, ':');
}

/* How long an idle client may leave the nodes alone: a quarter to half of a quarantine, at
 * random, as there may be many; less if one has served its quarantine before. */
static int64_t idle_pause_ms(struct core *core, int64_t now_ms)
{
    int64_t whole_ms = state_guard_ms(core);
    int64_t ms = whole_ms / 4 + (int64_t)(state_random(core) % (uint64_t)(whole_ms / 4));
    for (int i = 0; i < core->n; i++) {
        const struct guard *g = &core->guards[i];
        int64_t left_ms = whole_ms + CUT_MS - g->fields.observed_ms - (now_ms - g->text_ms);
        if (observing(core, i) && left_ms < ms)
            ms = left_ms;
    }
    return ms < TICK_MS || core->unseeded ? TICK_MS : ms;
}

void guard_arm_timer(struct core *core, int64_t now_ms)
{
    int64_t at_ms = now_ms + (core->held ? TICK_MS : idle_pause_ms(core, now_ms));
    if (!core->health.at || core->health.due_ms > at_ms)
        timer_set(&core->timers, &core->health, at_ms);
}

void guard_on_timer(struct core *core, int64_t now_ms)
{
    int idles = !core->held && guard_idles(core);
    for (int i = 0; i < core->n; i++) {
        if (core->nodes[i].state == NODE_READY && !health_hung(&core->nodes[i], now_ms))
            guard_visit(core, i, now_ms);
        if (idles)
            state_reconnect(core, i, now_ms);
        else
            state_reconnect_for_holds(core, i, now_ms);
    }
    if (core->held || idles)
        guard_arm_timer(core, now_ms);
}

/* ---- what the guard means for a vote ---- */

/* True: the server may change to another life while connected: acquires check it. */
static int looks_at_life(const struct core *core, int i)
{
    const struct node *nd = &core->nodes[i];
    return nd->config->behind_proxy || nd->info.replicas || nd->info.failed_over;
}

/* The marker that must be there. */
static const char *wanted(struct core *core, int i)
{
    struct guard *g = &core->guards[i];
    if (g->state == RL_GUARD_ADMITTED) {
        memcpy(g->want, g->marker, sizeof(g->want));
    } else if (g->begun) {
        struct marker m = marking_in_state(g, MARKER_ADMITTED);    /* by another client */
        marker_write(&m, g->want);
    } else {
        memcpy(g->want, "?", 2);  /* matches none: the reply tells the marker */
    }
    if (looks_at_life(core, i) && g->fields.replid[0] && g->want[0] != '?')
        strcat(g->want, "!");
    return g->want;
}

const char *guard_arg(struct core *core, int i, int knows_run, int votes)
{
    const struct guard *g = &core->guards[i];
    if (votes && core->marker)
        return wanted(core, i);
    if (!knows_run)
        return core->marker ? "" : NULL;
    const char *name = core->nodes[i].info.replid;
    if (core->marker && name[0])
        name = g->kind == MARKER_READ && !g->forgot && of_this_life(core, i) ? g->marker : "";
    return name[0] ? name : "?";
}

/* ---- answers that show the marker ---- */

int guard_shows(struct core *core, int i, const struct reply *reply, struct reply *bare,
                int64_t now_ms)
{
    if (!core->marker || reply->type != REPLY_ARRAY || !reply->nums || reply->num[0] != RL_SHOWN)
        return 0;
    guard_saw(core, i, reply->text, reply->text_len, now_ms);
    guard_visit(core, i, now_ms);
    *bare = (struct reply){.type = reply->type, .nums = reply->nums - 1,
                           .has_text = reply->has_second, .text_len = reply->second_len};
    memcpy(bare->num, reply->num + 1, sizeof(bare->num) - sizeof(bare->num[0]));
    memcpy(bare->text, reply->second, reply->second_len);
    return 1;
}

/* Where a majority is all nodes every holder has all, so nobody has a part of one from before a
 * quarantine; but another cluster may have the server now. */
int guard_counts(const struct core *core, int i)
{
    int state = core->guards[i].state, all = quorum_size(core->n) == core->n;
    if (!core->marker)
        return !eligibility_others(core, i);
    return state == RL_GUARD_ADMITTED || (all && state != RL_GUARD_DISAGREES);
}

int guard_nameless(struct core *core, int i, int64_t now_ms)
{
    struct node *nd = &core->nodes[i];
    if (!core->marker && now_ms - nd->life_ms >= NODE_LOOK_MS &&
        now_ms - nd->ready_ms >= NODE_LOOK_MS && node_look_at_life(nd, now_ms))
        state_write(core, i);
    if (nd->info.replid[0])
        return 0;
    return node_object(nd, RL_NOPERM, RL_WHY_LIFE_UNKNOWN);
}
